// The application of test/proof/trials/public.sh: echoes headers, counts bodies, streams, and answers WebSockets.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'

const stream = (res, type, line) => {
  res.writeHead(200, { 'Content-Type': type })
  let left = 5
  const timer = setInterval(() => {
    res.write(line(Date.now()))
    if (--left > 0) return
    clearInterval(timer)
    res.end()
  }, 300)
}
const server = createServer((req, res) => {
  if (req.url === '/events') return stream(res, 'text/event-stream', at => `data: ${at}\n\n`)
  if (req.url === '/lines') return stream(res, 'application/x-ndjson', at => `{"at": ${at}}\n`)
  if (req.url === '/hsts') res.setHeader('Strict-Transport-Security', 'max-age=5')
  if (req.method !== 'POST') return res.end(JSON.stringify({ ...req.headers, pid: process.pid }))
  let bytes = 0
  req.on('data', data => {
    bytes += data.length
  })
  req.on('end', () => res.end(String(bytes)))
})
server.on('upgrade', (req, socket) => {
  const accept = createHash('sha1').update(`${req.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
  const status = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
  socket.write(`${status}Sec-WebSocket-Accept: ${accept.digest('base64')}\r\n\r\n`)
  socket.on('error', () => {})
  socket.pipe(socket)
})
server.listen(process.env.PORT)
