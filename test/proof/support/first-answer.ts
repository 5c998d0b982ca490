// Run by `evaluated-code.ts` in a process of its own: imports a Worker, lets it answer one request, and prints which of
// its files that took.
import { registerHooks } from 'node:module'
import { sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const { folder, entry, env, path, headers } = JSON.parse(process.argv[2]!)
const files = new Set<string>()
registerHooks({
  load(url, context, next) {
    const file = url.startsWith('file:') ? fileURLToPath(url) : ''
    if (file.startsWith(folder + sep)) files.add(file)
    return next(url, context)
  },
})
const { default: worker } = await import(pathToFileURL(entry).href)
const work: Promise<unknown>[] = []
const log = console.log
console.log = () => {}
const response = await worker.fetch(new Request(`http://slipway.test${path}`, { headers }), env, {
  waitUntil: (promise: Promise<unknown>) => void work.push(promise),
  passThroughOnException() {},
})
const text = await response.text()
const loaded = [...files]
await Promise.allSettled(work)
if (response.status !== 200) throw new Error(`${path} answers ${response.status}: ${text}`)
log(JSON.stringify(loaded))
process.exit()
