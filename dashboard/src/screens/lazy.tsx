// A screen whose code loads when it is opened.
import type { ComponentType } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Skeleton } from '../parts/panel.tsx'
import { Problem } from '../parts/problem.tsx'
import type { Screen, ScreenProps } from './screens.ts'

const loaded = new Map<Screen, ComponentType<ScreenProps<never>>>()

export function LazyScreen({ screen, ...props }: { screen: Screen } & ScreenProps) {
  const [, setDone] = useState<Screen>()
  const [error, setError] = useState<Error>()
  const Content = loaded.get(screen)
  useEffect(() => {
    if (Content) return
    screen.load().then(module => {
      loaded.set(screen, module.default)
      setDone(screen)
    }, setError)
  }, [screen])
  if (Content) return <Content {...(props as unknown as ScreenProps<never>)} />
  return error ? <Problem error={error} onRetry={() => location.reload()} /> : <Skeleton lines={8} />
}
