// A component whose code loads when it is shown for the first time.
import type { ComponentType, VNode } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Problem } from './problem.tsx'

type Module<Props> = { default: ComponentType<Props> }

export function lazily<Props extends object>(load: () => Promise<Module<Props>>, placeholder?: VNode) {
  let Loaded: ComponentType<Props> | undefined
  return function Lazy(props: Props) {
    const [, setDone] = useState(false)
    const [error, setError] = useState<Error>()
    useEffect(() => {
      if (Loaded) return
      load().then(module => {
        Loaded = module.default
        setDone(true)
      }, setError)
    }, [])
    if (Loaded) return <Loaded {...props} />
    return error ? <Problem error={error} onRetry={() => location.reload()} /> : (placeholder ?? null)
  }
}
