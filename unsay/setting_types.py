"""Kinds of numbers that settings have."""

import logging
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
# Longest wait, 46 days. Source: the least `threading.TIMEOUT_MAX` of all systems is 4,294,967 s.
MOST_SECONDS = 4_000_000
Seconds = Annotated[float, Field(gt=0.0, le=MOST_SECONDS, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a setting; a number outside is replaced by the nearer one, with a logged warning."""

    least: float
    most: float

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_after_validator_function(self._limited, handler(kind))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {**handler(schema), "minimum": self.least, "maximum": self.most}

    def _limited(self, value: float, info: core_schema.ValidationInfo) -> float:
        used = min(max(value, self.least), self.most)
        if used != value:
            LOG.warning(
                "name=%s value=%r used=%r a setting is outside its limits",
                info.field_name,
                value,
                used,
            )
        return used
