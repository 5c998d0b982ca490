// A proxy that adds latency: it delays what passes by half a round trip in each direction.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Cleanup } from './processes.ts'

/** The address of `target`, `roundTrip` milliseconds away. */
export async function addLatency(cleanup: Cleanup, target: string, roundTrip: number): Promise<string> {
  const { hostname, port } = new URL(target)
  const open = new Set<Socket>()
  const server = createServer({ noDelay: true }, near => {
    const far = connect({ host: hostname, port: Number(port), noDelay: true })
    relayDelayed(near, far, roundTrip / 2)
    relayDelayed(far, near, roundTrip / 2)
    for (const socket of [near, far]) open.add(socket.on('close', () => open.delete(socket)))
  })
  cleanup.defer(() => {
    server.close()
    for (const socket of open) socket.destroy()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Timers of the same length fire in order, so the parts stay in order. */
function relayDelayed(from: Socket, to: Socket, ms: number): void {
  const later = (act: () => unknown) => setTimeout(() => to.destroyed || act(), ms)
  from.on('data', part => later(() => to.write(part)))
  from.on('end', () => later(() => to.end()))
  from.on('error', () => to.destroy())
}
