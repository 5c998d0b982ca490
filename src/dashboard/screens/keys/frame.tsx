// The head of the pages about keys, and the way between them.
import type { ComponentChildren } from 'preact'
import { PageHead } from '../../parts/page.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { Tabs } from '../tabs.tsx'

const TABS = [
  { path: '', label: 'Keys', keys: '1' },
  { path: '/trusted', label: 'Trusted issuers', keys: '2' },
] as const

type Props = { tab: (typeof TABS)[number]['path']; actions?: ComponentChildren; children: ComponentChildren }
export function KeysFrame({ tab, actions, children }: Props) {
  useCrumbs(...(tab ? [{ label: 'Keys', to: '/keys' }, { label: 'Trusted issuers' }] : [{ label: 'Keys' }]))
  return (
    <>
      <PageHead title="Keys" actions={actions} />
      <Tabs label="Pages about keys" thing="keys" to="/keys" tab={tab} tabs={TABS} />
      {children}
    </>
  )
}
