"""Turns `openapi/pantheon.yaml` into `pantheon/generated`.

`python -m codegen` writes the files, `python -m codegen --check` compares them and exits 1 on any
difference. Models come from datamodel-code-generator, operations and Falcon routes from the
templates beside this module. What the templates cannot express stops the generation with the JSON
pointer of the construct; nothing is skipped in silence.
"""
