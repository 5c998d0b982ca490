// Addresses: `/ui/<workspace>/<screen>`. A link that names no workspace leads to the last one that was open.
import type { ComponentChildren, JSX } from 'preact'
import { Link as RouterLink, useSearch } from 'wouter-preact'
import { navigate } from 'wouter-preact/use-browser-location'
import { workspaceId } from '../api/client.ts'

const WORKSPACE_KEY = 'slipway-workspace'

export const readLastWorkspace = (): string | null => localStorage.getItem(WORKSPACE_KEY)
export const storeLastWorkspace = (id: string): void => localStorage.setItem(WORKSPACE_KEY, id)

/** The address of a screen of the open workspace, such as `/deployments`. */
export const toAddress = (screen: string, workspace = workspaceId.value): string => `/ui/${workspace}${screen}`

type LinkProps = Omit<JSX.AnchorHTMLAttributes<HTMLAnchorElement>, 'href'> & {
  to: string
  children: ComponentChildren
}
/** A link to a screen of the open workspace. */
export const Link = ({ to, children, ...rest }: LinkProps) => (
  <RouterLink href={toAddress(to)} {...(rest as object)}>
    {children}
  </RouterLink>
)

/** A filter in the address. It replaces the entry of the history, so that Back leaves the screen. */
export function useFilter(name: string): [value: string, set: (value: string) => void] {
  // `useSearch` only signals that the address has changed: its value is already decoded.
  useSearch()
  const value = new URLSearchParams(location.search).get(name) ?? ''
  return [value, next => setFilters({ [name]: next })]
}

/** An empty value removes the filter. */
export function setFilters(values: Record<string, string>): void {
  const params = new URLSearchParams(location.search)
  for (const [name, value] of Object.entries(values)) {
    if (value) params.set(name, value)
    else params.delete(name)
  }
  const search = params.toString()
  navigate(location.pathname + (search && `?${search}`), { replace: true })
}
