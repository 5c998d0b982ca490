"""The application's own authentication: tokens are names, and each user has what it made."""

from fastapi import FastAPI, Request
from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def authenticate(authorization: str | None) -> dict:
    if not authorization:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Send a token.")
    return {"identity": authorization.removeprefix("Bearer "), "permissions": ["use"]}


@auth.on
async def own(ctx: Auth.types.AuthContext, value: dict) -> dict:
    if "metadata" in value:
        value["metadata"]["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}


@auth.on.assistants
async def read(ctx: Auth.types.AuthContext, value: dict) -> bool:
    return ctx.action in ("read", "search")


@auth.on.store
async def store(ctx: Auth.types.AuthContext, value: dict) -> None:
    value["namespace"] = (ctx.user.identity, *(value.get("namespace") or ()))


app = FastAPI()


@app.get("/hello/{name}")
async def hello(name: str, request: Request) -> dict:
    return {"hello": name, "user": request.user.identity}


@app.post("/upload", status_code=201)
async def upload(request: Request) -> dict:
    return {"bytes": len(await request.body())}


async def embed(texts: list[str]) -> list[list[float]]:
    """Vectors of how often letters come."""
    return [[text.count(letter) for letter in "abc"] for text in texts]
