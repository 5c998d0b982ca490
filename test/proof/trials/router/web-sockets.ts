// Opens WebSockets through a proxy and leaves them idle.
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import WebSocket from 'ws'
import { readProcesses } from '../../support/machine.ts'
import type { Contender } from './proxies.ts'

const AT_ONCE = 50
function memoryMbOf(pids: number[]): number {
  const children = readProcesses().filter(({ parent }) => pids.includes(parent))
  return [...pids, ...children.map(({ pid }) => pid)].reduce((sum, pid) => {
    const kb = /^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
    return sum + Number(kb ?? 0) / 1024
  }, 0)
}

export async function holdWebSockets({ url, pids, webSocketPath }: Contender, count: number) {
  const before = memoryMbOf(pids())
  const started = performance.now()
  const sockets: WebSocket[] = []
  while (sockets.length < count) {
    const some = Array.from(
      { length: Math.min(AT_ONCE, count - sockets.length) },
      () => new WebSocket(`${url.replace('http', 'ws')}${webSocketPath}`, { rejectUnauthorized: false }),
    )
    sockets.push(...some)
    await Promise.all(some.map(socket => once(socket, 'open')))
  }
  return {
    memoryMb: memoryMbOf(pids()) - before,
    openedMs: Math.round(performance.now() - started),
    open: () => sockets.filter(({ readyState }) => readyState === WebSocket.OPEN).length,
    async close() {
      const closed = sockets.map(socket => once(socket, 'close'))
      for (const socket of sockets) socket.close()
      await Promise.all(closed)
    },
  }
}
