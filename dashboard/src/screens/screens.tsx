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
  { path: '/deployments/:deployment', Content: lazily(() => import('./deployments/deployment.tsx'), LOADING) },
  {
    path: '/previews',
    menu: { label: 'Previews', icon: 'branch', keys: 'g v', group: '' },
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
]
