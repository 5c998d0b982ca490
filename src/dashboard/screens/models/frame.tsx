// The head of the pages about models, and the way between them.
import type { ComponentChildren } from 'preact'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Tabs } from '../tabs.tsx'

const TABS = [
  { path: '', label: 'Models', keys: '1' },
  { path: '/usage', label: 'Usage and budgets', keys: '2' },
  { path: '/settings', label: 'Settings', keys: '3' },
] as const

type Props = { tab: (typeof TABS)[number]['path']; actions?: ComponentChildren; children: ComponentChildren }
export function ModelsFrame({ tab, actions, children }: Props) {
  const open = TABS.find(({ path }) => path === tab)
  useCrumbs(...(open && tab ? [{ label: 'Models', to: '/models' }, { label: open.label }] : [{ label: 'Models' }]))
  return (
    <>
      <PageHead title="Models" actions={actions} />
      <Tabs label="Pages about models" thing="models" to="/models" tab={tab} tabs={TABS} />
      {children}
    </>
  )
}
