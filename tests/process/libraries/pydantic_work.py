"""pydantic: models, validators in Rust and in Python, models that are made in a request."""

import datetime
import decimal
import json

import pydantic


class Address(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(gt=0)


class User(pydantic.BaseModel):
    name: str
    born: datetime.date
    balance: decimal.Decimal
    addresses: list[Address] = []

    @pydantic.field_validator("name")
    @classmethod
    def capital(cls, value):
        return value.title()


USERS = pydantic.TypeAdapter(dict[str, list[User]])


def work(number):
    addresses = [{"street": "street", "number": 3}]
    given = {"name": f"ann {number}", "born": "2000-01-02", "balance": "3.50", "addresses": addresses}
    user = User.model_validate_json(json.dumps(given))
    try:
        Address(street="street", number=0)
    except pydantic.ValidationError as error:
        count = error.error_count()
    users = USERS.validate_python({"some": [user, {"name": "bea", "born": "2001-01-01", "balance": 1}]})
    made = pydantic.create_model("Made", x=(int, number)) if number % 5 == 0 else None
    return [user.model_dump_json(), count, len(users["some"]), made().x if made else None, user.model_copy().name]
