// A component whose code loads when it is shown for the first time, or before by `preload`.
import type { ComponentType, VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Problem } from './problem.tsx'

export type Module<Props> = { default: ComponentType<Props> }

export function lazily<Props extends object>(load: () => Promise<Module<Props>>, placeholder?: VNode) {
  let Loaded: ComponentType<Props> | undefined
  const preload = async () => {
    Loaded ??= (await load()).default
  }
  function Lazy(props: Props) {
    const [, setDone] = useState(false)
    const [error, setError] = useState<Error>()
    useEffect(() => {
      preload().then(() => setDone(true), setError)
    }, [])
    if (Loaded) return <Loaded {...props} />
    return error ? <Problem error={error} onRetry={() => location.reload()} /> : (placeholder ?? null)
  }
  return Object.assign(Lazy, { preload })
}
