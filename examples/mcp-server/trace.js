// Shows a call, with its inputs and outputs, in the traces of this deployment. An application with dependencies needs
// no such file: the npm package `langsmith` and the SDKs of OpenTelemetry find their variables by themselves.
import { randomUUID } from 'node:crypto'

const { LANGSMITH_TRACING, LANGSMITH_ENDPOINT, LANGSMITH_API_KEY, LANGSMITH_PROJECT } = process.env

/** Returns what `call` returns. */
export async function traced(name, run_type, inputs, call) {
  const begun = { id: randomUUID(), name, run_type, inputs, start_time: new Date().toISOString() }
  try {
    const outputs = await call(inputs)
    send({ ...begun, outputs })
    return outputs
  } catch (error) {
    send({ ...begun, error: String(error) })
    throw error
  }
}

/** A call neither waits for its trace nor fails with it. */
function send(run) {
  if (LANGSMITH_TRACING !== 'true') return
  const body = JSON.stringify({ ...run, session_name: LANGSMITH_PROJECT, end_time: new Date().toISOString() })
  const headers = { 'Content-Type': 'application/json', 'X-Api-Key': LANGSMITH_API_KEY }
  fetch(`${LANGSMITH_ENDPOINT}/runs`, { method: 'POST', headers, body })
    .then(({ ok, status }) => ok || console.error(`A trace was refused with ${status}.`))
    .catch(error => console.error(`A trace was not sent: ${error.cause ?? error}.`))
}
