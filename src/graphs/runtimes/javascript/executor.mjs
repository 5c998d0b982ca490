// Runs JavaScript graphs for the server, which has started this process. They exchange JSON lines over descriptor 3.
import { registerHooks } from 'node:module'
import { Socket } from 'node:net'
import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'

const pipe = new Socket({ fd: 3 })
// Without its server nothing may go on: another copy takes the runs over.
pipe.on('close', () => process.exit(0))
pipe.on('error', () => process.exit(0))
const send = message => pipe.write(`${JSON.stringify(message)}\n`)

let lastId = 0
const waiting = new Map()
/** The store is the server's, and so are events, which are written before a checkpoint. */
function request(request) {
  const id = ++lastId
  return new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject })
    send({ type: 'request', id, request })
  })
}

/**
 * Packages that a graph and this executor must share come from the application: two copies would not know each other's
 * classes. An application without one of them gets the executor's.
 */
const SHARED = /^@langchain\/(?:langgraph|core|langgraph-checkpoint)(?:\/|$)/
function sharePackages(folder, graphs) {
  const paths = [...graphs.slice(0, 1).map(graph => graph.path), 'package.json']
  const parents = paths.map(path => pathToFileURL(resolve(folder, path)).href)
  const own = new URL('.', import.meta.url).href
  registerHooks({
    resolve(specifier, context, next) {
      if (!SHARED.test(specifier) || !context.parentURL?.startsWith(own)) return next(specifier, context)
      for (const parentURL of parents) {
        try {
          return next(specifier, { ...context, parentURL })
        } catch {
          // The application does not have it.
        }
      }
      return next(specifier, context)
    },
  })
}

/** A longer line is more than the server can read as a text, such as a history of a thousand large states. */
const LONGEST_ANSWER = 100 * 2 ** 20
const TOO_LONG = {
  status: 413,
  message: 'The answer has more than 100 MB. Ask for less, such as by a smaller `limit`.',
}

let answer
async function start({ folder, graphs, auth, embed, app, database }) {
  try {
    process.chdir(folder)
    sharePackages(folder, graphs)
    const { prepare } = await import('./answers.mjs')
    answer = await prepare({ folder, graphs, auth, embed, database, send, request })
    // Loaded with the graphs, whose packages it may share.
    const routes = app ? await (await import('./app.mjs')).serveApp(app, folder) : []
    send({ type: 'ready', routes })
  } catch (error) {
    console.error(error)
    send({ type: 'failed', detail: error instanceof Error ? error.message : String(error) })
  }
}

function take(message) {
  if (message.type === 'start') return void start(message)
  if (message.type === 'cancel') return answer.cancel(message.run)
  if (message.type === 'request') {
    const { resolve, reject } = waiting.get(message.id)
    waiting.delete(message.id)
    return message.error === undefined ? resolve(JSON.parse(message.result)) : reject(new Error(message.error))
  }
  answer.answer(message).then(
    result => {
      const isTooLong = result.length > LONGEST_ANSWER
      send({ type: 'answer', id: message.id, ...(isTooLong ? { error: TOO_LONG } : { result }) })
    },
    error => {
      if (!error.status) console.error(error)
      send({ type: 'answer', id: message.id, error: { message: String(error.message ?? error), status: error.status } })
    },
  )
}

let parts = []
pipe.on('data', chunk => {
  let start = 0
  for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, start)) {
    parts.push(chunk.subarray(start, end))
    take(JSON.parse(Buffer.concat(parts).toString('utf8')))
    parts = []
    start = end + 1
  }
  if (start < chunk.length) parts.push(chunk.subarray(start))
})

// A graph may leave a promise alone. One run must not end the others.
process.on('unhandledRejection', error => console.error('unhandled rejection in a graph:', error))
