// The pages of one thing, each with a key that opens it.
import { useLayoutEffect, useRef } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { useCommands } from '../commands/commands.ts'
import { Link, toAddress } from '../router/links.tsx'
import styles from './tabs.module.css'

/** `path` is the part of the address after the thing. */
type Tab = { path: string; label: string; keys: string }
type TabsProps = { label: string; thing: string; to: string; tab: string; tabs: readonly Tab[]; search?: string }

export function Tabs({ label, thing, to, tab, tabs, search = '' }: TabsProps) {
  const [, navigate] = useLocation()
  const row = useRef<HTMLElement>(null)
  // Not all fit on a phone. Only the row is scrolled, not the page.
  useLayoutEffect(() => {
    const { current } = row
    const open = current?.querySelector<HTMLElement>('[aria-current]')
    if (current && open)
      current.scrollLeft = open.offsetLeft - current.offsetLeft - (current.clientWidth - open.offsetWidth) / 2
  }, [tab])
  useCommands(
    tabs.map(({ path, label, keys }) => ({
      // A command stays as it was registered until its id changes.
      id: `tab-${path}${search}`,
      label: `${label} of ${thing}`,
      kind: 'page',
      keys,
      run: () => navigate(toAddress(to + path) + search),
    })),
  )
  return (
    <nav class={styles.tabs} aria-label={label} ref={row}>
      {tabs.map(({ path, label }) => (
        <Link key={path} to={to + path + search} aria-current={path === tab ? 'page' : undefined}>
          {label}
        </Link>
      ))}
    </nav>
  )
}
