// The screens of the menu, in its order, and those that a command opens from everywhere.
import type { IconName } from '../parts/icon.tsx'

export const GROUPS = ['Deploy', 'Observe', 'Connect', 'Settings'] as const
type Group = (typeof GROUPS)[number]

export const HOME = '/deployments'

/** An entry without a group and an icon is not in the menu. */
type Opened = {
  path: string
  label: string
  keys: string
  icon?: IconName
  group?: Group
  /** Folded until the workspace uses it: see `layout/menu-learning.ts`. */
  isFolded?: boolean
}

export const OPENED_BY_KEYS: Opened[] = [
  { path: HOME, label: 'Deployments', icon: 'cube', keys: 'g d', group: 'Deploy' },
  { path: '/new', label: 'New deployment', keys: 'c' },
  { path: '/queue', label: 'Queue', icon: 'queue', keys: 'g q', group: 'Deploy' },
  { path: '/previews', label: 'Previews', icon: 'pull', keys: 'g v', group: 'Deploy', isFolded: true },
  { path: '/history', label: 'History', icon: 'clock', keys: 'g h', group: 'Deploy' },
  { path: '/alerts', label: 'Alerts', icon: 'bell', keys: 'g b', group: 'Observe' },
  { path: '/logs', label: 'Logs', icon: 'lines', keys: 'g f', group: 'Observe' },
  { path: '/traces', label: 'Traces', icon: 'spans', keys: 'g t', group: 'Observe' },
  { path: '/datasets', label: 'Datasets', icon: 'stack', keys: 'g e', group: 'Observe', isFolded: true },
  { path: '/annotation', label: 'Annotation', icon: 'pen', keys: 'g n', group: 'Observe', isFolded: true },
  { path: '/rules', label: 'Rules', icon: 'bolt', keys: 'g u', group: 'Observe', isFolded: true },
  { path: '/listeners', label: 'Listeners', icon: 'listener', keys: 'g l', group: 'Connect', isFolded: true },
  { path: '/integrations', label: 'Git hosts', icon: 'branch', keys: 'g g', group: 'Connect', isFolded: true },
  { path: '/providers', label: 'Providers', icon: 'plug', keys: 'g o', group: 'Connect', isFolded: true },
  { path: '/channels', label: 'Channels', icon: 'bell', keys: 'g c', group: 'Connect' },
  { path: '/drains', label: 'Drains', icon: 'out', keys: 'g x', group: 'Connect', isFolded: true },
  { path: '/webhooks', label: 'Webhooks', icon: 'hook', keys: 'g w', group: 'Connect', isFolded: true },
  { path: '/models', label: 'Models', icon: 'spark', keys: 'g i', group: 'Connect', isFolded: true },
  { path: '/members', label: 'Members', icon: 'person', keys: 'g m', group: 'Settings' },
  { path: '/roles', label: 'Roles', icon: 'role', keys: 'g r', group: 'Settings', isFolded: true },
  { path: '/keys', label: 'Keys', icon: 'key', keys: 'g k', group: 'Settings' },
  { path: '/settings', label: 'Workspace', icon: 'gear', keys: 'g s', group: 'Settings' },
  { path: '/audit', label: 'Audit', icon: 'audit', keys: 'g a', group: 'Settings', isFolded: true },
]
