"""The sections of a recipe as typed models, in which pydantic finds every problem and its place in the recipe.

It is imported only when a recipe is read, since loading pydantic takes longer than opening a store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WrapValidator,
    model_validator,
)
from pydantic.functional_validators import ModelWrapValidatorHandler
from pydantic_core import InitErrorDetails, PydanticCustomError

from cfagg.errors import CfaggError, ConventionError, Problem
from cfagg.errors.arguments import closest
from cfagg.observations.dates import as_date, as_duration

__all__ = [
    "ByName", "Count", "Date", "Duration", "End", "Flag", "Made", "Names", "Number", "Path", "Paths", "Place",
    "Section", "Text", "Whole", "columns_of", "function", "listed", "parse", "places_of", "problems_of", "refused",
    "says", "settings_of", "wrong",
]  # fmt: skip

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)

type Place = tuple[int | str, ...]


class Section(BaseModel):
    """A mapping of a recipe: a key without a value counts as absent, and an unknown key is refused."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    #: Keys that are accepted and ignored.
    ignored: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, values: Any, check: ModelWrapValidatorHandler[Self]) -> Self:
        if isinstance(values, cls):
            return values
        if not isinstance(values, Mapping):
            raise ValueError(f"{values!r} is not a mapping of keys to values")  # noqa: TRY004
        fields = {field.alias or name for name, field in cls.model_fields.items()}
        hidden = {n for n, f in cls.model_fields.items() if any(isinstance(m, _Refusal) for m in f.metadata)}
        known = sorted(fields.union(cls.ignored) - hidden)
        strange: list[tuple[Place, str]] = []
        for key in values:
            if not isinstance(key, str):
                strange.append(((), f"the key {key!r} is not text"))
            elif key not in fields and key not in cls.ignored:
                hint = f"(known: {', '.join(known)}){closest(key, known)}"
                strange.append(((key,), f"is not known here {hint}"))
        try:
            found = check({k: v for k, v in values.items() if k in fields and v is not None})
        except ValidationError as error:
            raise wrong(*places_of(error), *strange) from None
        if strange:
            raise wrong(*strange)
        return found


class _Made(ModelMetaclass):
    """The type of classes that are called with their settings."""

    def __call__(self, config: Mapping[str, Any]) -> Any:
        return settings_of(cast("type[Section]", self), config)


class Made(Section, metaclass=_Made):
    """A source or filter that consists of its settings: called with them as given in the recipe."""


def wrong(*problems: tuple[Place, Any]) -> ValidationError:
    """Return an error that lists several problems with their places within a section; for validators of sections."""
    details = [
        InitErrorDetails(type=PydanticCustomError("recipe", "{said}", {"said": said}), loc=place, input=None)
        for place, said in problems
    ]
    return ValidationError.from_exception_data("recipe", details)


def places_of(error: ValidationError) -> list[tuple[Place, Any]]:
    """Return the places of problems, and the message of each: text, or an error with further problems."""
    found: list[tuple[Place, Any]] = []
    for detail in error.errors(include_url=False):
        context = detail.get("ctx", {})
        match detail["type"]:
            case "missing":
                said: Any = "is missing"
            case "recipe":
                said = context["said"]
            case "value_error":
                said = context["error"]
            case "literal_error":
                words = re.findall("'([^']*)'", context["expected"])
                said = f"{detail['input']!r} is not one of {', '.join(words)}{closest(str(detail['input']), words)}"
            case _:
                said = f"{detail['input']!r}: {detail['msg']}"
        found.append((detail["loc"], said))
    return found


def problems_of(error: ValidationError, where: str = "") -> list[Problem]:
    """Return the problems of a section that is at the place `where` of a recipe."""
    problems: list[Problem] = []
    for place, said in places_of(error):
        parts = [where, *(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)]
        if isinstance(said, CfaggError) and said.problems:
            problems += said.problems
        else:
            problems.append(Problem("".join(parts).removeprefix("."), getattr(said, "message", str(said))))
    return problems


def parse[T: Section](model: type[T], values: Any, where: str, problems: list[Problem], **context: Any) -> T | None:
    """Return a section of a recipe; if it is invalid, return `None` and add problems."""
    try:
        return model.model_validate({} if values is None else values, context=context)
    except ValidationError as error:
        problems += problems_of(error, where)
        return None


def settings_of[T: Section](model: type[T], config: Mapping[str, Any]) -> T:
    """Return the settings of a source or filter; raise ConventionError with every problem if they are invalid."""
    problems: list[Problem] = []
    found = parse(model, config, getattr(config, "where", ""), problems)
    if found is None:
        raise ConventionError(f"{getattr(config, 'where', '') or 'recipe'}: cannot be used as written", problems)
    return found


def columns_of(kind: Any, config: Mapping[Any, Any], *, places: str = "") -> dict[str, Any]:
    """Return the settings of a filter that has one per column; `places` is the reason why date and place have none."""
    where = getattr(config, "where", "")
    problems = [Problem(where, f"the key {key!r} is not text") for key in config if not isinstance(key, str)]
    found: dict[str, Any] = {}
    try:
        found = TypeAdapter(dict[Any, kind]).validate_python({k: v for k, v in config.items() if isinstance(k, str)})
    except ValidationError as error:
        problems += problems_of(error, where)
    if not config:
        problems.append(Problem(where, "has no columns"))
    if places:
        taken = [name for name in ("date", "latitude", "longitude") if name in config]
        problems += [Problem(f"{where}.{name}".lstrip("."), places) for name in taken]
    if problems:
        raise ConventionError(f"{where or 'recipe'}: cannot be used as written", problems)
    return found


def says(message: str) -> WrapValidator:
    """Return a validator with a message for values of another type, which follows the value."""

    def check(value: Any, handler: Callable[[Any], Any]) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise ValueError(f"{value!r} {message}") from None

    return WrapValidator(check)


class _Refusal(PlainValidator):
    """A validator that refuses a key and keeps it off the list of known ones."""


def refused(why: str, *, even_empty: bool = False) -> PlainValidator:
    """Return a validator that refuses a key with a reason; an empty value, such as ``false``, only if `even_empty`."""

    def check(value: Any) -> Any:
        if value or even_empty:
            raise ValueError(why)
        return value

    return _Refusal(check)


def function(remedy: str) -> PlainValidator:
    """Return a validator that refuses anything but a function."""

    def check(value: Any) -> Any:
        if not callable(value):
            raise ValueError(f"{value!r} is not a function; {remedy}")  # noqa: TRY004
        return value

    return PlainValidator(check)


def _text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"{value!r} is not text")


def _path(value: Any) -> str:
    return os.fsdecode(value) if isinstance(value, os.PathLike) else _text(value)


def listed(value: Any, what: str) -> tuple[str, ...]:
    """Return unique names; a single name counts as a list of one."""
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list | tuple) or not all(isinstance(v, str) and v for v in found):
        raise ValueError(f"{value!r} is not a list of {what}")
    twice = sorted({v for v in found if found.count(v) > 1})
    if twice:
        raise ValueError(f"{', '.join(twice)} occurs more than once")
    return tuple(found)


def _names(value: Any) -> tuple[str, ...]:
    return listed(value, "names")


def _paths(value: Any) -> tuple[str, ...]:
    several: Iterable[Any] = value if isinstance(value, list | tuple) else [value]
    found = [os.fsdecode(v) if isinstance(v, os.PathLike) else v for v in several]
    if not found:
        raise ValueError("is empty; name a file")
    return listed(found if isinstance(value, list | tuple | str | os.PathLike) else value, "paths")


def _mapping(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and all(isinstance(k, str) for k in value):
        return dict(value)
    raise ValueError(f"{value!r} is not a mapping of names")


def _date(value: Any, *, end: bool = False) -> datetime:
    try:
        return as_date(value, end=end)
    except OverflowError as error:
        raise ValueError(str(error)) from None


def _end(value: Any) -> datetime:
    return _date(value, end=True)


Text = Annotated[str, PlainValidator(_text)]
Path = Annotated[str, PlainValidator(_path)]
Names = Annotated[tuple[str, ...], PlainValidator(_names)]
Paths = Annotated[tuple[str, ...], PlainValidator(_paths)]
ByName = Annotated[dict[str, Any], PlainValidator(_mapping)]
Date = Annotated[datetime, PlainValidator(_date)]
#: A date that ends a range; a year or a month includes its last second.
End = Annotated[datetime, PlainValidator(_end)]
Duration = Annotated[timedelta, PlainValidator(as_duration)]
Flag = Annotated[bool, Field(strict=True), says("is neither true nor false")]
Number = Annotated[float, Field(strict=True, allow_inf_nan=False), says("is not a finite number")]
Count = Annotated[int, Field(strict=True, ge=1), says("is not a whole number of at least 1")]
#: A count that may be 0.
Whole = Annotated[int, Field(strict=True, ge=0), says("is not a whole number of at least 0")]
