"""Answers of models, dense in marks, each with the dialect it is read in."""

from pantheon.engine.tools import Dialect
from tests.engine.tools.parses import JSON, MINICPM, QWEN

CORPUS: tuple[tuple[Dialect, str], ...] = (
    (QWEN, "Hi.\n\n<tool_call>\n<function=ping>\n</function>\n</tool_call>"),
    (
        QWEN,
        "A <function=x> b\n<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n"
        "<parameter=mode>\n14\n</parameter>\n</function>\n</tool_call> c",
    ),
    (
        QWEN,
        "<function=read><parameter=filePath>\n\n</param\n</parameter>\n x</parameter>"
        "</function></tool_call>\n<function=ping></function>",
    ),
    (
        QWEN,
        "<function=read><parameter=filePath></parameter></function></parameter>"
        "</function>\n</tool_call>\n",
    ),
    (QWEN, 'é\n<tool_call>\n<function=read>\n<parameter=filePath>\n😀 "\\\n</par'),
    (QWEN, "see <tool_call>\n<function=read> it <tool_call>\n<function=read>\n"),
    (
        MINICPM,
        "A <function x>\n<function name='write_file'><param name=\"path\">a&amp;&b&lt</param>"
        '<param name="content"><![CDATA[<]]]>]]>&#65;</param></function> b',
    ),
    (MINICPM, 'x\n<function name="ping">\n</function>\n<function name="read"><param name="f">a</p'),
    (MINICPM, '<function name="write_file"><param name="mode"> 1 </param></param></function>'),
    (JSON, 'A {b} ```json\n{"name": "read", "arguments": {"filePath": "a\\n"}}\n``` c'),
    (JSON, "[{'name':'ping','arguments':None}, {{\"function\":\"ping\",\"arguments\":{}}}]"),
    (JSON, '{"arguments":{"filePath":"}\\"","filePath":[1],},"name":"read"} x'),
    (
        JSON,
        'x {"a":[{"name":"ping"}]} {"name":"pong","arguments":{}} {"name":"ping","arguments":""}',
    ),
    (JSON, 'y ```\n{"name":"read","arguments":{"filePath": tru}}\n``` z ``'),
    (JSON, '{"type":"function","function":{"name":"read","arguments":"{\\"filePath\\":1}"}}'),
)
