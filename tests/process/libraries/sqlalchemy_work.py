"""SQLAlchemy: mapped classes, sessions, relationships, an identity map of weak references."""

import gc

from sqlalchemy import ForeignKey, create_engine, func, select
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload


class Base(DeclarativeBase):
    pass


class Person(Base):
    __tablename__ = "person"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str]
    posts: Mapped[list["Post"]] = relationship(back_populates="person", cascade="all, delete-orphan")


class Post(Base):
    __tablename__ = "post"
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str]
    person_id: Mapped[int] = mapped_column(ForeignKey("person.id"))
    person: Mapped[Person] = relationship(back_populates="posts")


def work(number):
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Person(name=f"name {number}", posts=[Post(title=f"title {each}") for each in range(3)]))
        session.commit()
        session.expunge_all()
        wanted = select(Person).options(selectinload(Person.posts)).where(Person.name == f"name {number}")
        person = session.scalars(wanted).one()
        told = [person.name, [post.title for post in person.posts]]
        session.delete(person)
        session.commit()
        told.append(session.scalar(select(func.count()).select_from(Post)))
        del person
        gc.collect(0)
        told.append(len(session.identity_map))
    engine.dispose()
    return told
