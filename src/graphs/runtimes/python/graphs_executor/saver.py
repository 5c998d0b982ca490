"""Checkpoints in Postgres, in a schema of their own."""

from contextlib import asynccontextmanager
from typing import Any

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from .pipe import Pipe

SCHEMA = "graphs_python"
CONNECTIONS = 10
ALLOWLISTS = ("allowed_json_modules", "allowed_msgpack_modules")


class RunSaver(AsyncPostgresSaver):
    """Writes a checkpoint after the events of its run."""

    def __init__(self, pool: AsyncConnectionPool, pipe: Pipe, serde: JsonPlusSerializer | None) -> None:
        super().__init__(pool, serde=serde)
        self._pipe = pipe
        # Runs whose checkpoints could not be read or written.
        self._failed: set[str | None] = set()

    def take_failure(self, run: str) -> bool:
        """Tells whether checkpoints of a run failed, and forgets it."""
        has_failed = run in self._failed
        self._failed.discard(run)
        return has_failed

    @asynccontextmanager
    async def _watched(self, config: dict):
        run = config["configurable"].get("run_id")
        try:
            yield run
        except Exception:
            self._failed.add(run)
            raise

    async def aget_tuple(self, config: dict) -> Any:
        async with self._watched(config):
            return await super().aget_tuple(config)

    async def aput(self, config: dict, *rest: Any, **more: Any) -> dict:
        async with self._watched(config) as run:
            await self._pipe.flush(run)
            return await super().aput(config, *rest, **more)

    async def aput_writes(self, config: dict, *rest: Any, **more: Any) -> None:
        async with self._watched(config) as run:
            await self._pipe.flush(run)
            await super().aput_writes(config, *rest, **more)

    async def has_checkpoint_of(self, run: dict) -> bool:
        """Looks for a checkpoint that an earlier attempt of a run left, from which it goes on."""
        async with self.conn.connection() as connection:
            rows = await connection.execute(
                """select 1
                from checkpoints
                where thread_id = %s and checkpoint_ns = '' and metadata ->> 'run_id' = %s
                limit 1""",
                (run["thread_id"], run["run_id"]),
            )
            return await rows.fetchone() is not None


async def prepare_tables(database: str) -> None:
    """Without limits of time: a migration may make an index of a large table."""
    async with await AsyncConnection.connect(database, **_settings()) as connection:
        await connection.execute(f"create schema if not exists {SCHEMA}")
        await AsyncPostgresSaver(connection).setup()


def _settings(options: str = "") -> dict[str, Any]:
    return {
        "autocommit": True,
        "prepare_threshold": 0,
        "row_factory": dict_row,
        "options": f"-c search_path={SCHEMA} {options}",
        "application_name": "graphs python",
        # A database with the encoding SQL_ASCII gives bytes otherwise, by which no interrupt is found.
        "client_encoding": "utf8",
    }


def make_serde(given: dict | None) -> JsonPlusSerializer | None:
    """By `checkpointer.serde` of the configuration file. Without it, the library decides."""
    if given is None:
        return None
    allowed = {name: _to_modules(given[name]) for name in ALLOWLISTS if name in given}
    has_pickle = given.get("pickle_fallback")
    return JsonPlusSerializer(pickle_fallback=True if has_pickle is None else has_pickle, **allowed)


def _to_modules(value: list | bool | None) -> Any:
    return [tuple(one) for one in value] if isinstance(value, list) else value or None


async def open_saver(database: str, pipe: Pipe, serde: JsonPlusSerializer | None) -> RunSaver:
    pool = AsyncConnectionPool(
        database,
        min_size=1,
        max_size=CONNECTIONS,
        open=False,
        # The limits of the server: a statement that takes longer would hold a connection.
        kwargs=_settings("-c statement_timeout=30s -c idle_in_transaction_session_timeout=30s"),
    )
    await pool.open()
    return RunSaver(pool, pipe, serde)
