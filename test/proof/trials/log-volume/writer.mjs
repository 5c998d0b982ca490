// Writes numbered lines at RATE a second, for SECONDS from when SWITCH_URL asks for it.
import { createServer } from 'node:http'

const [rate, seconds] = [Number(process.env.RATE), Number(process.env.SECONDS)]
const PAUSE_MS = 50
const copy = Math.random().toString(36).slice(2, 8)
let isWriting = false

function write() {
  const startedAt = performance.now()
  let next = 0
  const timer = setInterval(() => {
    const due = Math.min(rate * seconds, Math.floor(((performance.now() - startedAt) / 1000) * rate))
    let text = ''
    for (; next < due; next++)
      text += `copy ${copy} line ${next} GET /orders/${next} answered 200 in ${next % 900} ms\n`
    if (text) process.stdout.write(text)
    if (next >= rate * seconds) clearInterval(timer)
  }, PAUSE_MS)
}

createServer((_, response) => {
  response.end(copy)
}).listen(process.env.PORT)
setInterval(async () => {
  if (isWriting) return
  const answer = await fetch(process.env.SWITCH_URL).catch(() => undefined)
  if ((await answer?.text()) !== 'write' || isWriting) return
  isWriting = true
  write()
}, 500)
