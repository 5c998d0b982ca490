// A component whose code loads on first use, or earlier by `preload`.
import type { ComponentType, VNode } from 'preact'
import { useEffect, useErrorBoundary, useState } from 'preact/hooks'
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
    // Without the boundary the page would be empty.
    useErrorBoundary(({ message }) =>
      setError(new Error(`${message}. The installation may have been updated. Reload the page.`)),
    )
    useEffect(() => {
      preload().then(() => setDone(true), setError)
    }, [])
    if (error) return <Problem error={error} onRetry={() => location.reload()} />
    return Loaded ? <Loaded {...props} /> : (placeholder ?? null)
  }
  return Object.assign(Lazy, { preload })
}
