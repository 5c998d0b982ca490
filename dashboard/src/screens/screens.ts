// Every screen: its address below the workspace, its place in the menu, and its code, which loads when it is opened.
import type { ComponentType } from 'preact'
import type { Me } from '../api/client.ts'
import type { IconName } from '../parts/icon.tsx'

export type ScreenProps<Params = Record<string, string>> = { workspace: string; params: Params; me: Me }
export type Screen = {
  path: string
  menu?: { label: string; icon: IconName; keys: string }
  load: () => Promise<{ default: ComponentType<ScreenProps<never>> }>
}

export const HOME = '/deployments'

export const screens: Screen[] = [
  {
    path: '/deployments',
    menu: { label: 'Deployments', icon: 'cube', keys: 'g d' },
    load: () => import('./deployments/list.tsx'),
  },
  { path: '/deployments/:deployment', load: () => import('./deployments/deployment.tsx') },
]
