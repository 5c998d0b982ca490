// Leaks memory while it serves, or crashes when it starts, as SWITCH_URL says.
import { createServer } from 'node:http'

const kind = await (await fetch(process.env.SWITCH_URL)).text()
if (kind === 'crash') {
  console.log('Opening the cache of sessions')
  const sessions = JSON.parse('{"list": null}')
  console.log(sessions.current.length)
}
const sessions = []
if (kind === 'leak') setInterval(() => sessions.push(Buffer.alloc(1024 * 1024, 1)), 200)
createServer((request, response) => {
  console.log(`GET ${request.url}, ${sessions.length} sessions`)
  response.end('shop')
}).listen(process.env.PORT)
