// The screens of the menu, in its order, and those that a command opens from everywhere.
import type { IconName } from '../parts/icon.tsx'

/** The first has no heading. */
export const GROUPS = ['', 'Tracing', 'Connected', 'Settings'] as const
type Group = (typeof GROUPS)[number]

export const HOME = '/deployments'

/** One without a group and an icon is not in the menu. */
type Opened = { path: string; label: string; keys: string; icon?: IconName; group?: Group }

export const OPENED_BY_KEYS: Opened[] = [
  { path: HOME, label: 'Deployments', icon: 'cube', keys: 'g d', group: '' },
  { path: '/new', label: 'New deployment', keys: 'c' },
  { path: '/queue', label: 'Queue', icon: 'queue', keys: 'g q', group: '' },
  { path: '/previews', label: 'Previews', icon: 'pull', keys: 'g v', group: '' },
  { path: '/history', label: 'History', icon: 'clock', keys: 'g h', group: '' },
  { path: '/traces', label: 'Traces', icon: 'spans', keys: 'g t', group: 'Tracing' },
  { path: '/datasets', label: 'Datasets', icon: 'stack', keys: 'g e', group: 'Tracing' },
  { path: '/annotation', label: 'Annotation', icon: 'pen', keys: 'g n', group: 'Tracing' },
  { path: '/rules', label: 'Rules', icon: 'bolt', keys: 'g u', group: 'Tracing' },
  { path: '/listeners', label: 'Listeners', icon: 'listener', keys: 'g l', group: 'Connected' },
  { path: '/providers', label: 'Providers', icon: 'plug', keys: 'g o', group: 'Connected' },
  { path: '/integrations', label: 'Git hosts', icon: 'branch', keys: 'g g', group: 'Connected' },
  { path: '/webhooks', label: 'Webhooks', icon: 'hook', keys: 'g w', group: 'Connected' },
  { path: '/models', label: 'Models', icon: 'spark', keys: 'g i', group: 'Connected' },
  { path: '/audit', label: 'Audit', icon: 'audit', keys: 'g a', group: '' },
  { path: '/members', label: 'Members', icon: 'person', keys: 'g m', group: 'Settings' },
  { path: '/roles', label: 'Roles', icon: 'role', keys: 'g r', group: 'Settings' },
  { path: '/keys', label: 'Keys', icon: 'key', keys: 'g k', group: 'Settings' },
  { path: '/settings', label: 'Workspace', icon: 'gear', keys: 'g s', group: 'Settings' },
]
