// The path of the page, at its top and in the title of the window.
import { signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'

export type Crumb = { label: string; to?: string }
export const crumbs = signal<Crumb[]>([])

export function useCrumbs(...path: Crumb[]): void {
  const text = path.map(({ label }) => label).join(' / ')
  useEffect(() => {
    crumbs.value = path
    document.title = [...path.map(({ label }) => label).reverse(), 'Slipway'].join(' · ')
  }, [text])
}
