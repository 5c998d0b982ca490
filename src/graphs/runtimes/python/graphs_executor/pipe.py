"""JSON lines between the executor and the server, over descriptor 3."""

import asyncio
import json
import os
import socket
import sys
import traceback

LONGEST_LINE = 2**31 - 1
# A longer line is more than the server can read as a text, such as a history of a thousand large states.
LONGEST_ANSWER = 100 * 2**20
TOO_LONG = {"status": 413, "message": "The answer has more than 100 MB. Ask for less, such as by a smaller `limit`."}


class Pipe:
    """Sends messages from the loop, and requests what is the server's: the store, and events."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future] = {}
        self.loop = asyncio.get_running_loop()

    def send(self, message: dict) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def emit(self, run: str, event: str, data: str) -> None:
        self.send({"type": "event", "run": run, "event": event, "data": data})

    async def flush(self, run: str | None) -> None:
        """Waits until the events of a run are written.

        After a crash, a graph goes on from its last checkpoint, so that events from before it would never come again.
        The server refuses it for a run that another copy may have by now.
        """
        # The state of a thread is also set without a run.
        if run is not None:
            await self.request({"op": "flush", "run": run})

    async def request(self, request: dict) -> object:
        self._last_id += 1
        identifier = self._last_id
        future = self.loop.create_future()
        self._waiting[identifier] = future
        self.send({"type": "request", "id": identifier, "request": request})
        return await future

    def take_answer(self, message: dict) -> None:
        future = self._waiting.pop(message["id"])
        if future.done():
            return
        if "error" in message:
            future.set_exception(RuntimeError(message["error"]))
        else:
            future.set_result(json.loads(message["result"]))


async def serve() -> None:
    descriptor = socket.socket(fileno=3)
    # A process that a graph starts must not keep the pipe open.
    os.set_inheritable(3, False)
    descriptor.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=descriptor, limit=LONGEST_LINE)
    pipe = Pipe(writer)
    answers = None
    tasks: set[asyncio.Task] = set()

    def begin(work) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def answer(message: dict) -> None:
        identifier = message["id"]
        try:
            result = await answers.answer(message)
            given = {"result": result} if len(result) <= LONGEST_ANSWER else {"error": TOO_LONG}
            pipe.send({"type": "answer", "id": identifier} | given)
        except Exception as error:
            # A handler of the application refuses with a status of its own.
            status = getattr(error, "status", None)
            if not isinstance(status, int):
                traceback.print_exc()
            message = str(error) if isinstance(status, int) else f"{type(error).__name__}: {error}"
            pipe.send({"type": "answer", "id": identifier, "error": {"message": message, "status": status}})

    try:
        while line := await reader.readline():
            message = json.loads(line)
            kind = message["type"]
            if kind == "start":
                try:
                    from .answers import prepare

                    answers = await prepare(message, pipe)
                    routes: list[str] = []
                    if message.get("app"):
                        from .app import serve_app

                        routes = await serve_app(message["app"], message["folder"])
                    pipe.send({"type": "ready", "routes": routes})
                except Exception as error:
                    traceback.print_exc()
                    pipe.send({"type": "failed", "detail": str(error)})
            elif kind == "cancel":
                answers.cancel(message["run"])
            elif kind == "request":
                pipe.take_answer(message)
            else:
                begin(answer(message))
    except ConnectionError:
        pass
    finally:
        # Without its server nothing may go on: another copy takes the runs over. The end of the loop would wait for
        # tasks and threads of graphs, some of which wait for the server.
        sys.stdout.flush()
        os._exit(0)


def main() -> None:
    asyncio.run(serve())
