// The part of a kubelet that the API server asks for the commands, ports and logs of pods.
import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import type { AddressInfo } from 'node:net'
import { makeCertificate } from '../../../support/certificate.ts'
import { PodSockets } from '../../../support/kubernetes-sockets.ts'
import type { ContainerLog } from './container-log.ts'
import type { Target } from './pod-network.ts'

type Place = {
  commandOf: (namespace: string, pod: string, container: string, words: string[], tty: boolean) => string[]
  targetOf: (namespace: string, pod: string, port: number) => Target | undefined
  logOf: (namespace: string, pod: string, container: string, isPrevious: boolean) => ContainerLog | undefined
}

export class Kubelet {
  /** Without it, the API server speaks SPDY to a node. */
  static readonly FEATURES = ['ExtendWebSocketsToKubelet']
  readonly #sockets: PodSockets
  readonly #logOf: Place['logOf']
  #server: Server | undefined

  constructor({ commandOf, targetOf, logOf }: Place) {
    this.#logOf = logOf
    const [namespace, name, container] = [0, 1, 2] as const
    this.#sockets = new PodSockets({
      commandOf: (path, words, tty) => {
        const parts = path.split('/')
        return commandOf(parts[namespace]!, parts[name]!, parts[container]!, words, tty)
      },
      targetOf: (path, port) => targetOf(path.split('/')[namespace]!, path.split('/')[name]!, port),
    })
  }

  /** Returns its port. */
  async open(address: string): Promise<number> {
    const server = createServer(makeCertificate('kubelet'), (request, response) => {
      const { pathname, searchParams } = new URL(request.url!, 'https://kubelet')
      const [, kind, namespace, pod, container] = pathname.split('/')
      const isPrevious = searchParams.get('previous') === 'true'
      const log = kind === 'containerLogs' && this.#logOf(namespace!, pod!, container!, isPrevious)
      if (log) log.serve(searchParams, response)
      else response.writeHead(404).end()
    })
    this.#server = server
    server.on('upgrade', (request, socket, head) => {
      const [, kind, ...path] = new URL(request.url!, 'https://kubelet').pathname.split('/')
      this.#sockets.accept(request, socket, head, path.join('/'), kind === 'exec' ? 'exec' : 'portforward')
    })
    await once(server.listen(0, address), 'listening')
    return (server.address() as AddressInfo).port
  }

  close(): void {
    this.#sockets.close()
    this.#server?.close()
    this.#server?.closeAllConnections()
  }
}
