// The head of the pages about alerts, and the way between them.
import type { ComponentChildren } from 'preact'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Tabs } from '../tabs.tsx'

const TABS = [
  { path: '', label: 'Incidents', keys: '1' },
  { path: '/rules', label: 'Rules', keys: '2' },
  { path: '/mutes', label: 'Mutes', keys: '3' },
] as const

type Props = { tab: (typeof TABS)[number]['path']; actions?: ComponentChildren; children: ComponentChildren }
export function AlertsFrame({ tab, actions, children }: Props) {
  const open = TABS.find(({ path }) => path === tab)
  useCrumbs(...(open && tab ? [{ label: 'Alerts', to: '/alerts' }, { label: open.label }] : [{ label: 'Alerts' }]))
  return (
    <>
      <PageHead title="Alerts" actions={actions} />
      <Tabs label="Pages about alerts" thing="alerts" to="/alerts" tab={tab} tabs={TABS} />
      {children}
    </>
  )
}
