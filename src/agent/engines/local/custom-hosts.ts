// Which deployment of this agent is served at a custom host. Pure.
import type { Route } from './router.ts'

type HostClaim = { custom_url: string | null; tenant_id?: string | undefined; custom_since?: number | undefined }
/** The workspace of each custom host. */
export type HostOwners = Map<string, string | undefined>

/** The control plane gives a host to one workspace. In case it is wrong, whoever has it here first keeps it. */
export function hostOwnersOf(all: HostClaim[]): HostOwners {
  const owners: HostOwners = new Map()
  for (const { custom_url, tenant_id } of all.toSorted((a, b) => (a.custom_since ?? 0) - (b.custom_since ?? 0))) {
    const custom = parseCustomUrl(custom_url)
    if (custom && !owners.has(custom.host)) owners.set(custom.host, tenant_id)
  }
  return owners
}

/** Null where it is no host that can be given away: names below localhost are this agent's own. */
export function parseCustomUrl(custom_url: string | null | undefined): Pick<Route, 'host' | 'path'> | null {
  const url = custom_url ? URL.parse(/^https?:/.test(custom_url) ? custom_url : `https://${custom_url}`) : null
  const host = url?.hostname.replace(/\.$/, '') ?? ''
  if (!host || /(^|\.)localhost$|^[\d.]+$|^\[/.test(host)) return null
  return { host, path: url!.pathname }
}
