// Decides which deployment of this agent owns a custom host. Pure.
import type { Route } from './router.ts'

type HostClaim = { custom_url: string | null; tenant_id?: string | undefined; custom_since?: number | undefined }
export type HostOwners = Map<string, string | undefined>

/** The oldest claim wins. A second check, as the control plane gives each host to one workspace. */
export function hostOwnersOf(all: HostClaim[], domains: string[]): HostOwners {
  const owners: HostOwners = new Map()
  for (const { custom_url, tenant_id } of all.toSorted((a, b) => (a.custom_since ?? 0) - (b.custom_since ?? 0))) {
    const custom = parseCustomUrl(custom_url, domains)
    if (custom && !owners.has(custom.host)) owners.set(custom.host, tenant_id)
  }
  return owners
}

/** Null for a host that cannot be claimed: an IP address, or a name below a domain in which the agent assigns names. */
export function parseCustomUrl(
  custom_url: string | null | undefined,
  domains: string[],
): Pick<Route, 'host' | 'path'> | null {
  const url = custom_url ? URL.parse(/^https?:/.test(custom_url) ? custom_url : `https://${custom_url}`) : null
  const host = url?.hostname.replace(/\.$/, '') ?? ''
  const isAssigned = domains.some(domain => host === domain || host.endsWith(`.${domain}`))
  if (!host || isAssigned || /^[\d.]+$|^\[/.test(host)) return null
  return { host, path: url!.pathname }
}
