// The stored deployments of this machine: their hosts, their ports, and the revision that gets the requests; and the
// routes that follow from them.
import { join } from 'node:path'
import { findFreePort } from '../../../postgres/free-port.ts'
import type { GrantIssuer, WorkProtection } from '../../../protocol/protection.schema.ts'
import type { RequestLogs } from '../../../protocol/request-logs.schema.ts'
import type { WorkTraffic } from '../../../protocol/traffic.schema.ts'
import type { RevisionSpec } from '../../engine.ts'
import { listFolder, readJson, writeJson } from '../../system/files.ts'
import { type HostOwners, hostOwnersOf, parseCustomUrl } from './custom-hosts.ts'
import type { GrantTrust } from './grant-trust.ts'
import { type LabelOwners, labelOf, labelOwnersOf, type SavedLabel, savedLabels } from './host-labels.ts'
import type { Route, Target } from './router.ts'

/** The stored state of a deployment. */
type SavedDeployment = {
  /** `<label>.localhost`. It never changes. The same label is served below the domain of the applications. */
  host: string
  /** When it got that. Absent: from an earlier agent. */
  host_since?: number | undefined
  routed: string | null
  /** A port of the loopback address that stands for the host. It changes only if another program has taken it. */
  local_port?: number | undefined
  /** Nothing of the routed revision listens, so there is no URL. */
  isWithoutWeb?: boolean | undefined
  custom_url: string | null
  /** Null: everyone may see it. Kept here, so that an agent without its control plane keeps it closed. */
  protection?: WorkProtection | null
  /** The requests that become lines. Absent: none. */
  request_logs?: RequestLogs | null
  /** The share of another revision than the routed one. */
  split?: WorkTraffic | null
  tenant_id?: string | undefined
  /** When it claimed the host of its custom URL: the oldest claim wins. */
  custom_since?: number | undefined
  /** Its further labels, and when it got each. */
  labels?: SavedLabel[] | undefined
  /** The approximate time of its last request. */
  used?: number | undefined
}
/** The routed revision of a deployment, as requests see it. `holds`: the next one has to wait until a copy serves. */
export type Servers = { targets: Target[]; holds: boolean }
type ServersOf = (deployment: string, revision: string) => Servers
type Shared = {
  owners: HostOwners
  labels: LabelOwners
  grants: GrantIssuer | null
  serversOf: ServersOf
  routerPort: number
}

/** A revision with a share that is routed has all of them. */
export const splitOf = ({ split, routed }: SavedDeployment): WorkTraffic | null =>
  split && split.revision_id !== routed ? split : null

export class DeploymentRecords {
  readonly #home: string
  readonly #domain: string | undefined
  readonly #grants: GrantTrust

  constructor(home: string, domain: string | undefined, grants: GrantTrust) {
    this.#home = home
    this.#domain = domain
    this.#grants = grants
  }

  read(deployment: string): SavedDeployment | undefined {
    return readJson<SavedDeployment>(this.#file(deployment))
  }

  write(deployment: string, saved: SavedDeployment): void {
    writeJson(this.#file(deployment), saved)
  }

  #file(deployment: string): string {
    return join(this.#home, deployment, 'deployment.json')
  }

  save(
    { deployment_id, name, tenant_id, custom_url, protection, request_logs, host_labels = [] }: RevisionSpec,
    routed?: { revision_id: string; isWithoutWeb: boolean },
  ): void {
    const previous = this.read(deployment_id)
    const host = parseCustomUrl(custom_url, this.#domains)?.host
    const isSame = host !== undefined && host === parseCustomUrl(previous?.custom_url, this.#domains)?.host
    this.write(deployment_id, {
      host: previous?.host ?? this.#chooseHost(name, deployment_id, tenant_id, host_labels[0]?.label),
      host_since: previous ? previous.host_since : Date.now(),
      labels: savedLabels(host_labels.slice(1), previous?.labels),
      routed: routed?.revision_id ?? previous?.routed ?? null,
      isWithoutWeb: routed ? routed.isWithoutWeb : previous?.isWithoutWeb,
      local_port: previous?.local_port,
      custom_url,
      // Only `protect` changes it: a slow step may know an older one.
      protection: (previous ? previous.protection : protection) ?? null,
      ...(previous?.split && { split: previous.split }),
      request_logs: (previous ? previous.request_logs : request_logs) ?? null,
      tenant_id,
      custom_since: host === undefined ? undefined : isSame ? previous!.custom_since : Date.now(),
      // Usage counts from the first route, so that a deployment without any request becomes unused.
      used: previous?.used ?? (routed ? Date.now() : undefined),
    })
  }

  /** False if nothing changed. */
  protect(deployment: string, protection: WorkProtection | null): boolean {
    const saved = this.read(deployment)
    if (!saved || JSON.stringify(saved.protection ?? null) === JSON.stringify(protection)) return false
    this.write(deployment, { ...saved, protection })
    return true
  }

  /** False if nothing changed. */
  logRequests(deployment: string, request_logs: RequestLogs | null): boolean {
    const saved = this.read(deployment)
    if (!saved || JSON.stringify(saved.request_logs ?? null) === JSON.stringify(request_logs)) return false
    this.write(deployment, { ...saved, request_logs })
    return true
  }

  /** False if nothing changed. */
  split(deployment: string, split: WorkTraffic | null): boolean {
    const saved = this.read(deployment)
    if (!saved || JSON.stringify(saved.split ?? null) === JSON.stringify(split)) return false
    this.write(deployment, { ...saved, split })
    return true
  }

  /** The domains below which the agent gives each deployment a name. */
  get #domains(): string[] {
    return ['localhost', ...(this.#domain ? [this.#domain] : [])]
  }

  urlOf({ host }: SavedDeployment, routerPort: number): string {
    return this.#domain ? `https://${labelOf(host)}.${this.#domain}` : `http://${host}:${routerPort}`
  }

  /** The host of its custom URL, if it can have one. */
  customHostOf({ custom_url, routed }: SavedDeployment): string | undefined {
    return routed ? parseCustomUrl(custom_url, this.#domains)?.host : undefined
  }

  /**
   * The label that the control plane gives, unless another workspace has it on this machine. Without one: names are
   * unique within a workspace only, so a taken one gets a suffix.
   */
  #chooseHost(name: string, deployment: string, tenant_id: string, given?: string): string {
    const others = listFolder(this.#home)
      .filter(other => other !== deployment)
      .flatMap(other => this.read(other) ?? [])
    const host = given && `${given}.localhost`
    if (host && !others.some(other => other.host === host && other.tenant_id !== tenant_id)) return host
    const taken = new Set(others.map(other => other.host))
    const suffixed = [8, 36].map(length => `${name.slice(0, 62 - length)}-${deployment.slice(0, length)}`)
    const label = [name, ...suffixed].find(label => !taken.has(`${label}.localhost`))!
    return `${label}.localhost`
  }

  /** Names below localhost have no address in the resolvers of Python and Node on many machines. */
  hasLocalUrl({ isWithoutWeb, local_port }: SavedDeployment): boolean {
    return this.#domain === undefined && !isWithoutWeb && local_port !== undefined
  }

  async chooseLocalPort(deployment: string): Promise<void> {
    const saved = this.read(deployment)
    if (!saved || saved.isWithoutWeb || this.#domain !== undefined || saved.local_port !== undefined) return
    this.write(deployment, { ...saved, local_port: await findFreePort() })
  }

  /** Another program has it. Returns the deployment with another port. */
  async leaveLocalPort(deployment: string, saved: SavedDeployment): Promise<SavedDeployment> {
    this.write(deployment, { ...saved, local_port: undefined })
    await this.chooseLocalPort(deployment)
    return this.read(deployment)!
  }

  routes(serversOf: ServersOf, routerPort: number): Route[] {
    const all = listFolder(this.#home).flatMap(id => {
      const saved = this.read(id)
      return saved ? [{ id, saved }] : []
    })
    const owners = hostOwnersOf(
      all.map(({ saved }) => saved),
      this.#domains,
    )
    const shared = { owners, labels: labelOwnersOf(all), grants: this.#grants.read(), serversOf, routerPort }
    return all.flatMap(({ id, saved }) => this.#routesOf(id, saved, shared))
  }

  #routesOf(deployment: string, saved: SavedDeployment, all: Shared): Route[] {
    const { owners, labels, grants, serversOf, routerPort } = all
    if (!saved.routed) return []
    const { targets, holds } = serversOf(deployment, saved.routed)
    const access = saved.protection && {
      deployment_id: deployment,
      workspace_id: saved.tenant_id ?? '',
      ...saved.protection,
      grants,
    }
    const revision = saved.routed
    const beside = splitOf(saved)
    const other = beside && { revision: beside.revision_id, ...serversOf(deployment, beside.revision_id) }
    // Also without a ready copy, which gets nothing: the router would forget its counts.
    const split = beside && { ...other!, share: beside.share, sticky: beside.sticky }
    const shared = {
      ...{ targets, of: deployment, revision },
      ...(split && { split }),
      ...(holds && { holds }),
      ...(access && { access }),
      ...(saved.request_logs && { logs: saved.request_logs }),
    }
    const own = labelOf(saved.host)
    const ownRoute = (domain: string, hasPort: boolean): Route => ({
      host: `${own}.${domain}`,
      path: '/',
      ...(hasPort && this.hasLocalUrl(saved) && { port: saved.local_port! }),
      ...shared,
    })
    const further = (saved.labels ?? []).filter(({ label }) => labels.get(label) === deployment)
    const generated = this.#domains.flatMap((domain, i): Route[] => [
      ...(labels.get(own) === deployment ? [ownRoute(domain, i === 0)] : []),
      ...further.map(({ label, revision_id }): Route => {
        const route = { host: `${label}.${domain}`, path: '/' }
        if (revision_id === null) return { ...route, ...shared }
        const { split: _, ...alone } = shared
        if (revision_id === revision) return { ...route, ...alone }
        if (revision_id === other?.revision)
          return { ...route, ...alone, revision: revision_id, targets: other.targets, holds: false }
        return { ...route, targets: [], moved_to: this.urlOf(saved, routerPort), ...(access && { access }) }
      }),
    ])
    const custom = parseCustomUrl(saved.custom_url, this.#domains)
    if (!custom || owners.get(custom.host) !== saved.tenant_id) return generated
    return [...generated, { ...custom, ...shared }]
  }
}
