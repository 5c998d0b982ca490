// Addresses for pods and Services: a bridge on this machine, a network namespace for each pod, and a forwarder for each
// port of a Service, which plays kube-proxy.
import { execFileSync } from 'node:child_process'
import * as net from 'node:net'
import { POD_NETWORK } from './kubernetes.ts'

const BRIDGE = 'slw-trial'
/** The last parts of the addresses of pods. */
const [FIRST_POD, LAST_POD] = [2, 254]
/** This machine, as pods see it. */
export const HOST_ADDRESS = `${POD_NETWORK}.1`
const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'pipe', 'pipe'], encoding: 'utf8' })

export type Target = { host: string; port: number }

export class PodNetwork {
  readonly #namespaces = new Map<string, number>()
  readonly #forwarders = new Map<string, net.Server>()
  #last = FIRST_POD - 1

  open(): void {
    this.close()
    ip('link', 'add', BRIDGE, 'type', 'bridge')
    ip('address', 'add', `${HOST_ADDRESS}/24`, 'dev', BRIDGE)
    ip('link', 'set', BRIDGE, 'up')
  }

  /** Returns the name of its network namespace and its address. */
  addPod(): { namespace: string; address: string } {
    const number = this.#nextNumber()
    const [namespace, link, address] = [`slw-trial-${number}`, `slwt${number}`, `${POD_NETWORK}.${number}`]
    ip('netns', 'add', namespace)
    this.#namespaces.set(namespace, number)
    ip('link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', namespace)
    ip('link', 'set', link, 'master', BRIDGE, 'up')
    const inside = (...args: string[]) => ip('-n', namespace, ...args)
    inside('address', 'add', `${address}/24`, 'dev', 'eth0')
    inside('link', 'set', 'lo', 'up')
    inside('link', 'set', 'eth0', 'up')
    inside('route', 'add', 'default', 'via', HOST_ADDRESS)
    return { namespace, address }
  }
  /** An address is used again as late as possible: Services may still know its last pod. */
  #nextNumber(): number {
    const used = new Set(this.#namespaces.values())
    const next = (number: number) => (number < LAST_POD ? number + 1 : FIRST_POD)
    this.#last = next(this.#last)
    while (used.has(this.#last)) this.#last = next(this.#last)
    return this.#last
  }
  removePod(namespace: string): void {
    this.#namespaces.delete(namespace)
    ip('netns', 'delete', namespace)
  }

  /** Connections to the address go to one of the targets at that moment. */
  async forward(address: string, port: number, targets: () => Target[]): Promise<void> {
    const name = `${address}:${port}`
    if (this.#forwarders.has(name)) return
    let next = 0
    const server = net.createServer(client => {
      const all = targets()
      const target = all[next++ % Math.max(1, all.length)]
      if (!target) return client.destroy()
      const upstream = net.connect(target.port, target.host)
      const end = () => {
        client.destroy()
        upstream.destroy()
      }
      client.on('error', end).on('close', end)
      upstream.on('error', end).on('close', end)
      client.pipe(upstream).pipe(client)
    })
    this.#forwarders.set(name, server)
    if (address !== HOST_ADDRESS) {
      const existing = ip('-o', 'address', 'show', 'dev', BRIDGE)
      if (!existing.includes(` ${address}/32 `)) ip('address', 'add', `${address}/32`, 'dev', BRIDGE)
    }
    await new Promise<void>((resolve, reject) => server.once('error', reject).listen(port, address, resolve))
  }

  close(): void {
    for (const server of this.#forwarders.values()) server.close()
    this.#forwarders.clear()
    for (const namespace of this.#namespaces.keys()) this.removePod(namespace)
    if (ip('-o', 'link', 'show').includes(` ${BRIDGE}:`)) ip('link', 'delete', BRIDGE)
  }
}
