// Breaks on command: `/break?kind=…`. It asks SWITCH_URL when it starts, and ends if it is to crash.
import { createServer } from 'node:http'

const isToCrash = async () => (await (await fetch(process.env.SWITCH_URL)).text()) === 'crash'
if (await isToCrash()) {
  console.error('TypeError: Cannot read properties of undefined (reading "price")')
  process.exit(1)
}
let isFailing = false
const held = []
const breaks = {
  log: () => console.log('payment failed: card 4711 was refused'),
  fail: () => {
    isFailing = true
  },
  heal: () => {
    isFailing = false
  },
  leak: () => setInterval(() => held.push(Buffer.alloc(8 * 1024 * 1024, 1)), 50),
  crash: () => setImmediate(() => process.exit(1)),
}
createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://app')
  if (pathname === '/break') breaks[searchParams.get('kind')]()
  else if (isFailing) response.statusCode = 500
  response.end()
}).listen(process.env.PORT)
