// Every screen: its address below the workspace, its place in the menu, and its code, which loads when it is opened.
import type { ComponentType } from 'preact'
import type { Me } from '../api/client.ts'
import type { IconName } from '../parts/icon.tsx'
import { lazily } from '../parts/lazily.tsx'
import { Skeleton } from '../parts/panel.tsx'

export type ScreenProps<Params = Record<string, string>> = { workspace: string; params: Params; me: Me }
export type Screen = {
  path: string
  menu?: { label: string; icon: IconName; keys: string; group: Group }
  /** For a screen that is opened from everywhere, and is not in the menu. */
  command?: { label: string; keys: string }
  Content: ComponentType<ScreenProps<never>>
}

/** In the order of the menu. The first has no heading. */
export const GROUPS = ['', 'Connected', 'Settings'] as const
type Group = (typeof GROUPS)[number]

const LOADING = <Skeleton lines={8} />
export const HOME = '/deployments'

export const screens: Screen[] = [
  {
    path: '/deployments',
    menu: { label: 'Deployments', icon: 'cube', keys: 'g d', group: '' },
    Content: lazily(() => import('./deployments/list.tsx'), LOADING),
  },
  {
    path: '/new',
    command: { label: 'New deployment', keys: 'c' },
    Content: lazily(() => import('./new/new.tsx'), LOADING),
  },
  { path: '/new/:deployment', Content: lazily(() => import('./new/first.tsx'), LOADING) },
  {
    path: '/queue',
    menu: { label: 'Queue', icon: 'queue', keys: 'g q', group: '' },
    Content: lazily(() => import('./queue/queue.tsx'), LOADING),
  },
  { path: '/deployments/:deployment/logs', Content: lazily(() => import('./logs/page.tsx'), LOADING) },
  { path: '/deployments/:deployment/metrics', Content: lazily(() => import('./deployments/metrics.tsx'), LOADING) },
  { path: '/deployments/:deployment', Content: lazily(() => import('./deployments/deployment.tsx'), LOADING) },
  {
    path: '/previews',
    menu: { label: 'Previews', icon: 'pull', keys: 'g v', group: '' },
    Content: lazily(() => import('./previews/previews.tsx'), LOADING),
  },
  {
    path: '/deployments/:deployment/previews',
    Content: lazily(() => import('./previews/deployment-previews.tsx'), LOADING),
  },
  {
    path: '/history',
    menu: { label: 'History', icon: 'clock', keys: 'g h', group: '' },
    Content: lazily(() => import('./history/history.tsx'), LOADING),
  },
  {
    path: '/deployments/:deployment/history',
    Content: lazily(() => import('./history/deployment-history.tsx'), LOADING),
  },
  {
    path: '/deployments/:deployment/environment',
    Content: lazily(() => import('./deployments/environment.tsx'), LOADING),
  },
  { path: '/deployments/:deployment/settings', Content: lazily(() => import('./deployments/settings.tsx'), LOADING) },
  { path: '/deployments/:deployment/compare', Content: lazily(() => import('./deployments/compare.tsx'), LOADING) },
  {
    path: '/deployments/:deployment/revisions/:number',
    Content: lazily(() => import('./deployments/revision.tsx'), LOADING),
  },
  {
    path: '/listeners',
    menu: { label: 'Listeners', icon: 'listener', keys: 'g l', group: 'Connected' },
    Content: lazily(() => import('./listeners/list.tsx'), LOADING),
  },
  { path: '/listeners/new', Content: lazily(() => import('./listeners/new.tsx'), LOADING) },
  { path: '/listeners/:listener', Content: lazily(() => import('./listeners/listener.tsx'), LOADING) },
  {
    path: '/providers',
    menu: { label: 'Providers', icon: 'plug', keys: 'g o', group: 'Connected' },
    Content: lazily(() => import('./providers/list.tsx'), LOADING),
  },
  { path: '/providers/new/discovery', Content: lazily(() => import('./providers/discover.tsx'), LOADING) },
  { path: '/providers/new/by-hand', Content: lazily(() => import('./providers/by-hand.tsx'), LOADING) },
  { path: '/providers/:provider', Content: lazily(() => import('./providers/provider.tsx'), LOADING) },
  {
    path: '/integrations',
    menu: { label: 'Git hosts', icon: 'branch', keys: 'g g', group: 'Connected' },
    Content: lazily(() => import('./integrations/list.tsx'), LOADING),
  },
  { path: '/integrations/new', Content: lazily(() => import('./integrations/new.tsx'), LOADING) },
  { path: '/integrations/:integration', Content: lazily(() => import('./integrations/integration.tsx'), LOADING) },
  {
    path: '/webhooks',
    menu: { label: 'Webhooks', icon: 'hook', keys: 'g w', group: 'Connected' },
    Content: lazily(() => import('./webhooks/list.tsx'), LOADING),
  },
  { path: '/webhooks/new', Content: lazily(() => import('./webhooks/new.tsx'), LOADING) },
  { path: '/webhooks/:webhook', Content: lazily(() => import('./webhooks/webhook.tsx'), LOADING) },
  {
    path: '/audit',
    menu: { label: 'Audit', icon: 'audit', keys: 'g a', group: '' },
    Content: lazily(() => import('./audit/list.tsx'), LOADING),
  },
  {
    path: '/members',
    menu: { label: 'Members', icon: 'person', keys: 'g m', group: 'Settings' },
    Content: lazily(() => import('./members/list.tsx'), LOADING),
  },
  { path: '/members/new', Content: lazily(() => import('./members/new.tsx'), LOADING) },
  { path: '/members/:member', Content: lazily(() => import('./members/member.tsx'), LOADING) },
  {
    path: '/roles',
    menu: { label: 'Roles', icon: 'role', keys: 'g r', group: 'Settings' },
    Content: lazily(() => import('./roles/list.tsx'), LOADING),
  },
  { path: '/roles/new', Content: lazily(() => import('./roles/new.tsx'), LOADING) },
  { path: '/roles/:role', Content: lazily(() => import('./roles/role.tsx'), LOADING) },
  {
    path: '/keys',
    menu: { label: 'Keys', icon: 'key', keys: 'g k', group: 'Settings' },
    Content: lazily(() => import('./keys/list.tsx'), LOADING),
  },
  { path: '/keys/new', Content: lazily(() => import('./keys/new.tsx'), LOADING) },
  { path: '/keys/:key', Content: lazily(() => import('./keys/key.tsx'), LOADING) },
  {
    path: '/settings',
    menu: { label: 'Workspace', icon: 'gear', keys: 'g s', group: 'Settings' },
    Content: lazily(() => import('./settings/workspace.tsx'), LOADING),
  },
  { path: '/settings/new-workspace', Content: lazily(() => import('./settings/new-workspace.tsx'), LOADING) },
  { path: '/account', Content: lazily(() => import('./settings/account.tsx'), LOADING) },
]
