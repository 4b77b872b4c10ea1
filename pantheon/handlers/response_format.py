"""`response_format` and what becomes of it (reference, `response_format_status`)."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import UNSET

from pantheon.engine import JsonFormat
from pantheon.generated.models import ChatCompletionParams, ResponseFormat, ResponseFormatStatus
from pantheon.handlers.sampling_params import value_or_none


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """What is done about a response format.

    Attributes:
        constraint: what the engine is to keep to; None leaves the answer free.
        status: what is reported when the constraint holds; None when the request sent no format.
    """

    constraint: JsonFormat | None = None
    status: ResponseFormatStatus | None = None

    def status_after(
        self, closed: bool | None, relaxed: bool = False
    ) -> ResponseFormatStatus | None:
        """The status once an answer has ended.

        Args:
            closed: whether the answer is complete in its format (see `Finished.format_closed`).
            relaxed: whether only a part of its schema was enforced.
        """
        if self.constraint is not None and closed is False:
            return "not_enforced"
        return "schema_downgraded" if relaxed else self.status


def read_response_format(params: ChatCompletionParams, enforce_schema: bool) -> FormatPlan:
    """What a body's `response_format` asks for and gets.

    Args:
        params: the validated body.
        enforce_schema: constrain the answer to the schema of `json_schema`, an addition to the
            reference.
    """
    wanted = value_or_none(params.response_format)
    if wanted is None:
        return FormatPlan()
    if params.tools is not UNSET and params.tools and params.tool_choice != "none":
        return FormatPlan(status="ignored_tools_present")
    match wanted.type:
        case "text":
            return FormatPlan(status="applied")
        case "json_object":
            return FormatPlan(JsonFormat(), "applied")
        case "json_schema":
            return _schema_plan(wanted, enforce_schema)
    return FormatPlan(status="ignored_unknown_type")


def _schema_plan(wanted: ResponseFormat, enforce_schema: bool) -> FormatPlan:
    schema = (value_or_none(wanted.json_schema) or {}).get("schema")
    # Without a schema there is only the JSON constraint, whatever the setting says.
    if enforce_schema and isinstance(schema, dict):
        return FormatPlan(JsonFormat(schema), "applied")
    return FormatPlan(JsonFormat(), "schema_downgraded")
