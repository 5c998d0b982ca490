// Uses an example by the SDK of JavaScript: use.mjs FOLDER EXAMPLE URL KEY. Prints a JSON line for each step.
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const [folder, example, apiUrl, apiKey] = process.argv.slice(2)
const entry = createRequire(join(folder, 'x.js')).resolve('@langchain/langgraph-sdk')
const { Client } = await import(pathToFileURL(entry).href)
const client = new Client({ apiUrl, apiKey })
const message = text => ({ messages: [{ role: 'user', content: text }] })
const print = (step, ok, detail) => console.log(JSON.stringify({ step, ok, detail: ok ? '' : JSON.stringify(detail) }))

const EXAMPLES = {
  async rag() {
    await client.store.putItem(['documents'], 'cranes', { text: 'The harbour has seven cranes.' })
    await client.store.putItem(['documents'], 'ships', { text: 'Ships arrive on Mondays.' })
    const { messages } = await client.runs.wait(null, 'agent', { input: message('How many cranes has the harbour?') })
    print(
      'it answers from the document',
      messages.at(-1).content === 'It says: The harbour has seven cranes.',
      messages,
    )
    const other = await client.runs.wait(null, 'agent', { input: message('Who was Caesar?') })
    print('it finds nothing else', other.messages.at(-1).content === 'It says: none', other)
  },

  async 'human-in-the-loop'() {
    const { thread_id } = await client.threads.create()
    const first = await client.runs.wait(thread_id, 'agent', { input: message('Invite Ada.') })
    const [{ value }] = first.__interrupt__
    print('it asks a person', value.draft === 'Done: Invite Ada.', first)
    const [found] = await client.threads.search({ status: 'interrupted', ids: [thread_id] })
    print('the thread is found as interrupted', found?.thread_id === thread_id, found)
    const resumed = await client.runs.wait(thread_id, 'agent', { command: { resume: { edit: 'Dear Ada' } } })
    print('an edited mail is sent', resumed.messages.at(-1).content === 'Sent: Dear Ada', resumed)
  },

  async 'plan-and-execute'() {
    const steps = []
    const { thread_id } = await client.threads.create()
    const stream = client.runs.stream(thread_id, 'agent', { input: { task: 'Tell the time' }, streamMode: 'updates' })
    for await (const { event, data } of stream) if (event === 'updates') steps.push(...Object.keys(data))
    print('it streams its steps', steps.join() === 'make_plan,work,work,conclude', steps)
    const { values } = await client.threads.getState(thread_id)
    print('it answers', values.answer.startsWith('Done: Tell the time\nDone: Look it up'), values)
    const history = await client.threads.getHistory(thread_id)
    print('its history has each step', history.length >= 5, history.length)
  },
}
await EXAMPLES[example]()
