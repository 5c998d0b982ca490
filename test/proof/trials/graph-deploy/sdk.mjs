// Uses a deployed graph as a person's own program does: sdk.mjs FOLDER URL KEY. Prints a JSON line for each step.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [folder, apiUrl, apiKey] = process.argv.slice(2)
const entry = createRequire(join(folder, 'x.js')).resolve('@langchain/langgraph-sdk')
const { Client } = await import(pathToFileURL(entry).href)
const client = new Client({ apiUrl, apiKey })
const message = text => ({ messages: [{ role: 'user', content: text }] })

async function step(name, work) {
  const outcome = await work().then(
    ok => ({ ok: ok === true, detail: JSON.stringify(ok) }),
    error => ({ ok: false, detail: String(error) }),
  )
  console.log(JSON.stringify({ step: name, ...outcome }))
}

const { thread_id } = await client.threads.create()
await step('runs.wait', async () => {
  const values = await client.runs.wait(thread_id, 'agent', { input: message('hello') })
  return values.messages.at(-1).content === 'You said: hello'
})
await step('runs.stream', async () => {
  let last
  for await (const part of client.runs.stream(thread_id, 'agent', { input: message('again'), streamMode: 'values' }))
    last = part
  return JSON.stringify(last.data).includes('You said: again')
})
await step('an interrupt is resumed', async () => {
  await client.runs.wait(thread_id, 'agent', { input: message('send it') })
  const { next } = await client.threads.getState(thread_id)
  const values = await client.runs.wait(thread_id, 'agent', { command: { resume: 'yes' } })
  return (next[0] === 'answer' && values.messages.at(-1).content === 'Sent.') || { next, values }
})
await step('another key is refused', async () => {
  const other = new Client({ apiUrl, apiKey: 'wrong', callerOptions: { maxRetries: 0 } })
  return other.threads.create().then(
    () => false,
    error => /40[13]/.test(String(error)),
  )
})
