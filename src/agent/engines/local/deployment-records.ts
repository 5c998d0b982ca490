// The stored deployments of this machine: their hosts, their ports, and the revision that gets the requests; and the
// routes that follow from them.
import { join } from 'node:path'
import { findFreePort } from '../../../postgres/free-port.ts'
import type { WorkProtection } from '../../../protocol/protection.schema.ts'
import type { RevisionSpec } from '../../engine.ts'
import { listFolder, readJson, writeJson } from '../../system/files.ts'
import { type HostOwners, hostOwnersOf, parseCustomUrl } from './custom-hosts.ts'
import type { GrantTrust } from './grant-trust.ts'
import type { Route, Target } from './router.ts'

/** The stored state of a deployment. */
export type SavedDeployment = {
  /** `<label>.localhost`. It never changes. The same label is served below the domain of the applications. */
  host: string
  routed: string | null
  /** A port of the loopback address that stands for the host. It changes only if another program has taken it. */
  local_port?: number | undefined
  /** Nothing of the routed revision listens, so there is no URL. */
  isWithoutWeb?: boolean | undefined
  custom_url: string | null
  /** Null: everyone may see it. Kept here, so that an agent without its control plane keeps it closed. */
  protection?: WorkProtection | null
  tenant_id?: string | undefined
  /** When it claimed the host of its custom URL: the oldest claim wins. */
  custom_since?: number | undefined
  /** The approximate time of its last request. */
  used?: number | undefined
}
/** The routed revision of a deployment, as requests see it. `holds`: the next one has to wait until a copy serves. */
export type Servers = { targets: Target[]; holds: boolean }

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
    { deployment_id, name, tenant_id, custom_url, protection }: RevisionSpec,
    routed?: { revision_id: string; isWithoutWeb: boolean },
  ): void {
    const previous = this.read(deployment_id)
    const host = parseCustomUrl(custom_url, this.#domains)?.host
    const isSame = host !== undefined && host === parseCustomUrl(previous?.custom_url, this.#domains)?.host
    this.write(deployment_id, {
      host: previous?.host ?? this.#chooseHost(name, deployment_id),
      routed: routed?.revision_id ?? previous?.routed ?? null,
      isWithoutWeb: routed ? routed.isWithoutWeb : previous?.isWithoutWeb,
      local_port: previous?.local_port,
      custom_url,
      protection: protection ?? null,
      tenant_id,
      custom_since: host === undefined ? undefined : isSame ? previous!.custom_since : Date.now(),
      // Usage counts from the first route, so that a deployment without any request becomes unused.
      used: previous?.used ?? (routed ? Date.now() : undefined),
    })
  }

  /** The domains below which the agent gives each deployment a name. */
  get #domains(): string[] {
    return ['localhost', ...(this.#domain ? [this.#domain] : [])]
  }

  urlOf({ host }: SavedDeployment, routerPort: number): string {
    return this.#domain ? `https://${labelOf(host)}.${this.#domain}` : `http://${host}:${routerPort}`
  }

  /** Names are unique within a workspace only, so a taken one gets a suffix. */
  #chooseHost(name: string, deployment: string): string {
    const others = listFolder(this.#home).filter(other => other !== deployment)
    const taken = new Set(others.map(other => this.read(other)?.host))
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

  routes(serversOf: (deployment: string, revision: string) => Servers): Route[] {
    const all = listFolder(this.#home).flatMap(id => {
      const saved = this.read(id)
      return saved ? [{ id, saved }] : []
    })
    const owners = hostOwnersOf(
      all.map(({ saved }) => saved),
      this.#domains,
    )
    return all.flatMap(({ id, saved }) => this.#routesOf(id, saved, owners, serversOf))
  }

  #routesOf(
    deployment: string,
    saved: SavedDeployment,
    owners: HostOwners,
    serversOf: (deployment: string, revision: string) => Servers,
  ): Route[] {
    if (!saved.routed) return []
    const { targets, holds } = serversOf(deployment, saved.routed)
    const access = saved.protection && {
      deployment_id: deployment,
      workspace_id: saved.tenant_id ?? '',
      ...saved.protection,
      grants: this.#grants.read(),
    }
    const revision = saved.routed
    const shared = { targets, of: deployment, revision, ...(holds && { holds }), ...(access && { access }) }
    const generated = this.#domains.map(
      (domain, i): Route => ({
        host: `${labelOf(saved.host)}.${domain}`,
        path: '/',
        ...(i === 0 && this.hasLocalUrl(saved) && { port: saved.local_port! }),
        ...shared,
      }),
    )
    const custom = parseCustomUrl(saved.custom_url, this.#domains)
    if (!custom || owners.get(custom.host) !== saved.tenant_id) return generated
    return [...generated, { ...custom, ...shared }]
  }
}

const labelOf = (host: string): string => host.replace(/\.localhost$/, '')
