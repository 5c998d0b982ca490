"""Checkpoints in Postgres, in a schema of their own."""

from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

SCHEMA = "graphs_python"
CONNECTIONS = 10


class RunSaver(AsyncPostgresSaver):
    async def prepare(self) -> None:
        async with self.conn.connection() as connection:
            await connection.execute(f"create schema if not exists {SCHEMA}")
        await self.setup()

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


async def open_saver(database: str) -> RunSaver:
    pool = AsyncConnectionPool(
        database,
        min_size=1,
        max_size=CONNECTIONS,
        open=False,
        kwargs={
            "autocommit": True,
            "prepare_threshold": 0,
            "row_factory": dict_row,
            "options": f"-c search_path={SCHEMA}",
            "application_name": "graphs python",
        },
    )
    await pool.open()
    return RunSaver(pool)
