// The Services of the cluster, for pods that really run: their names, and their ports on this machine.
import type { AnyObject, Objects } from './objects.ts'
import type { PodNetwork, Target } from './pod-network.ts'

type Endpoint = { addresses: string[]; conditions?: { ready?: boolean } }

export class PodServices {
  readonly #network: PodNetwork
  #services: AnyObject[] = []
  #ingresses: AnyObject[] = []
  #slices: AnyObject[] = []

  constructor(network: PodNetwork) {
    this.#network = network
  }

  async read(cluster: Objects): Promise<void> {
    ;[this.#services, this.#ingresses, this.#slices] = await Promise.all([
      cluster.list('v1', 'Service'),
      cluster.list('networking.k8s.io/v1', 'Ingress'),
      cluster.list('discovery.k8s.io/v1', 'EndpointSlice'),
    ])
    for (const service of this.#services) await this.#forward(service)
  }

  /** Names as the cluster's DNS has them. */
  hostsOf(namespace: string): string[] {
    return this.#services.flatMap(({ metadata, spec }) => {
      if (!spec.clusterIP || spec.clusterIP === 'None') return []
      const full = `${metadata!.name}.${metadata!.namespace}`
      const names = [full, `${full}.svc`, `${full}.svc.cluster.local`]
      if (metadata!.namespace === namespace) names.push(metadata!.name!)
      return names.map(name => `${name}:${spec.clusterIP}`)
    })
  }
  /** A pod behind the Ingress of a host, as the controller of a cluster finds it. Ports of routes have names. */
  findByHost(host: string): Target | undefined {
    for (const { metadata, spec } of this.#ingresses)
      for (const { host: own, http } of spec.rules ?? []) {
        if (own !== host) continue
        const { name, port } = http.paths[0].backend.service
        const all = this.endpointsOf(metadata!.namespace!, name, port.name)
        return all[Math.floor(Math.random() * all.length)]
      }
    return undefined
  }
  apiAddress(): string {
    return this.#services.find(({ metadata }) => metadata!.name === 'kubernetes')?.spec.clusterIP
  }
  async #forward({ metadata, spec }: AnyObject): Promise<void> {
    const { name, namespace } = metadata!
    if (!spec.clusterIP || spec.clusterIP === 'None' || name === 'kubernetes') return
    for (const { port, name: portName } of spec.ports)
      await this.#network.forward(spec.clusterIP, port, () => this.endpointsOf(namespace!, name!, portName))
  }
  /** The ready pods behind a port. */
  endpointsOf(namespace: string, service: string, portName: string | undefined): Target[] {
    const slices = this.#slices.filter(
      ({ metadata }) =>
        metadata!.namespace === namespace && metadata!.labels?.['kubernetes.io/service-name'] === service,
    ) as unknown as { endpoints?: Endpoint[]; ports?: { name?: string; port: number }[] }[]
    return slices.flatMap(({ endpoints, ports }) => {
      const port = ports?.find(({ name }) => (name || undefined) === portName)?.port
      const ready = (endpoints ?? []).filter(({ conditions }) => conditions?.ready)
      return port === undefined ? [] : ready.map(({ addresses }) => ({ host: addresses[0]!, port }))
    })
  }
}
