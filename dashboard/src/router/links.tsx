// Addresses: `/ui/<workspace>/<screen>`. A link that names no workspace leads to the last one that was open.
import type { ComponentChildren, JSX } from 'preact'
import { Link as RouterLink, useSearchParams } from 'wouter-preact'
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
  const [params, setParams] = useSearchParams()
  const set = (value: string) =>
    setParams(
      before => {
        const after = new URLSearchParams(before)
        if (value) after.set(name, value)
        else after.delete(name)
        return after
      },
      { replace: true },
    )
  return [params.get(name) ?? '', set]
}
