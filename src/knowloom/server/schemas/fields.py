"""Field types shared by the request models, and their base class."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError

from knowloom import codec
from knowloom.errors import Invalid
from knowloom.model import ContextFormat
from knowloom.validation import merge_names

ONLY_SPACE = "null: the only space of the key, or `default`"
Name = Annotated[str, Field(min_length=1, max_length=500)]
Names = Annotated[list[Name], Field(max_length=200)]
NonEmptyNames = Annotated[list[Name], Field(min_length=1, max_length=200)]
SpaceNames = Annotated[list[Name] | None, Field(max_length=200, description=ONLY_SPACE)]
SpaceName = Annotated[Name | None, Field(description=ONLY_SPACE)]
Label = Annotated[str, Field(max_length=500)]
Title = Annotated[str, Field(max_length=10_000)]
Text = Annotated[str, Field(max_length=1_000_000)]
DocumentText = Annotated[str, Field(max_length=10_000_000)]
QueryText = Annotated[str, Field(max_length=100_000)]
Id = int | Name
Version = Annotated[str, Field(max_length=100)]
Rows = list[dict[str, Any]]

Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Weight = Annotated[float, Field(ge=0, le=1000, allow_inf_nan=False)]
Tokens = Annotated[int, Field(ge=0, le=10_000_000)]
Limit = Annotated[int, Field(ge=1, le=1000)]
BulkLimit = Annotated[int, Field(ge=1, le=10_000)]
Depth = Annotated[int, Field(ge=0, le=10)]

FORMAT = ContextFormat()
Format = Literal["json", "markdown", "plain", "yaml"]
Method = Literal["hybrid", "bm25", "vector"]
Expansion = Literal["neighbours", "walk"]
Mode = Literal["hybrid", "bm25", "vector", "walk"]
Paths = Annotated[
    bool,
    Field(description="Describe the path to each linked item by titles, in `text` and as `via`"),
]
AnswerConfidence = Annotated[
    Fraction, Field(description="Return nothing but a notice if the confidence is below this")
]
Citations = Annotated[
    bool, Field(description="Number the blocks of `text` and list their sources, or add `source`")
]
Fenced = Annotated[bool, Field(description="Mark the text of untrusted items in `text` as data")]
Rerank = Annotated[
    bool | None,
    Field(description="Score the best hits by the server's reranker; null: if it has one"),
]
TierName = Annotated[
    Literal["core", "writer_pro", "teams", "enterprise"],
    Field(description="A lower tier than the key's; never a higher one"),
]
SecretsPolicy = Annotated[
    Literal["refuse", "redact", "flag"] | None,
    Field(description="For texts with secrets; null: the setting. `flag` only if that stores them"),
]
WhereRow = dict[str, Any]
Where = Annotated[
    WhereRow | Annotated[list[WhereRow], Field(max_length=100)] | None,
    Field(
        description="Conditions on properties, all of which must hold; see docs/filters.md",
        examples=[{"price": {"$gte": 10}, "team": {"$in": ["sales", "support"]}}],
    ),
]
WhereTexts = Annotated[
    list[Annotated[str, Field(max_length=10_000)]],
    Field(max_length=100, description="A condition such as `price>=10`, or JSON"),
]
Embed = Annotated[
    bool, Field(description="Embed before responding; if false, `knowloom embed` does it later")
]


def _parse_time(value: object) -> datetime:
    if not isinstance(value, str):
        raise ValueError("must be text such as 2026-01-31T12:00:00Z")
    try:
        return codec.text_to_time(value)
    except OverflowError:
        raise ValueError("is out of range") from None


def _reject_file(model: str) -> str:
    if model.lower().endswith(".json"):
        raise ValueError("must be the name of a model: files of the server are not read")
    return model


Time = Annotated[datetime, BeforeValidator(_parse_time)]
Model = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_reject_file)]
Strict = Annotated[
    bool, Field(description="Bound the tokens of a model without a tokenizer; else: estimate them")
]
AsOf = Annotated[Time | None, Field(description="Knowledge stored and valid at that time")]
Now = Annotated[Time | None, Field(description="Time of the request, for reproducible responses")]


class RequestModel(BaseModel):
    """A request body: unknown fields are rejected, types are not coerced.

    `other_names` are accepted too, by the field that they stand for.
    """

    model_config = ConfigDict(extra="forbid", strict=True)
    other_names: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _merge_names(cls, values: Any) -> Any:
        if not cls.other_names or not isinstance(values, dict):
            return values
        try:
            return merge_names(values, cls.other_names)
        except Invalid as error:
            raise PydanticCustomError("two_names", "{reason}", {"reason": str(error)}) from None

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the schema with the other names as properties of their own."""
        schema = handler(core_schema)
        properties = handler.resolve_ref_schema(schema)["properties"]
        for other, name in cls.other_names.items():
            properties[other] = {**properties[name], "description": f"The same as `{name}`"}
        return schema


FormatPart = Annotated[str, Field(max_length=100_000)]


class CustomFormat(RequestModel):
    """A custom format: parts with variables such as {{title}} and {{text}}."""

    item: FormatPart = FORMAT.item
    pointer: FormatPart = FORMAT.pointer
    link: FormatPart = FORMAT.link
    section: FormatPart = FORMAT.section
    separator: FormatPart = FORMAT.separator
    section_separator: FormatPart = FORMAT.section_separator
    header: FormatPart = FORMAT.header
    footer: FormatPart = FORMAT.footer
    escape: Literal["", "xml"] = ""
    line_break: FormatPart | None = FORMAT.line_break


def parse_format(format: str | CustomFormat | None) -> str | ContextFormat | None:
    """Return the format of a request as the engine takes it."""
    return ContextFormat(**format.model_dump()) if isinstance(format, CustomFormat) else format


def examples(*values: dict[str, Any]) -> ConfigDict:
    """Return a model configuration with examples for the published schema."""
    return ConfigDict(json_schema_extra={"examples": list(values)})
