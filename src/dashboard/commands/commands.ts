// Commands of the palette and of keys. A screen adds its own while it is open.
import { signal } from '@preact/signals'
import { useLayoutEffect } from 'preact/hooks'

export type Command = {
  id: string
  label: string
  /** One word for its kind, or for the place where it leads. */
  kind: string
  /** One key, or two after each other: `/`, `g d`. */
  keys?: string
  run: () => void
}

const groups = signal<Command[][]>([])
/** Commands of the open screen come first. */
export const allCommands = (): Command[] => groups.value.toReversed().flat()

export function useCommands(commands: Command[]): void {
  const key = commands.map(({ id, label }) => id + label).join()
  // Register before the first paint, so that keys work at once.
  useLayoutEffect(() => {
    groups.value = [...groups.value, commands]
    return () => {
      groups.value = groups.value.filter(group => group !== commands)
    }
  }, [key])
}

/** J and K move the focus through the links marked `data-row`. Enter opens, as for every link. */
export function useRowKeys(table: { current: HTMLElement | null }, thing: string): void {
  const move = (step: number) => {
    const links = [...(table.current?.querySelectorAll<HTMLElement>('[data-row]') ?? [])]
    const at = links.indexOf(document.activeElement as HTMLElement)
    links[at === -1 ? 0 : Math.max(0, Math.min(links.length - 1, at + step))]?.focus()
  }
  useCommands([
    { id: 'next-row', label: `Next ${thing}`, kind: 'action', keys: 'j', run: () => move(1) },
    { id: 'previous-row', label: `Previous ${thing}`, kind: 'action', keys: 'k', run: () => move(-1) },
  ])
}

const SWITCH_KEY = 'slipway-shortcuts'
/** Keys without Ctrl can be switched off, for people who use speech input (WCAG 2.1.4). */
export const shortcutsOn = signal(localStorage.getItem(SWITCH_KEY) !== 'off')
export function setShortcuts(on: boolean): void {
  shortcutsOn.value = on
  localStorage.setItem(SWITCH_KEY, on ? 'on' : 'off')
}

export const isPaletteOpen = signal(false)
export const isHelpOpen = signal(false)

const SEQUENCE_MS = 1_000
const isTyping = (target: EventTarget | null) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))

let first: { key: string; at: number } | undefined

export function handleKey(event: KeyboardEvent): void {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k' && !event.shiftKey && !event.altKey) {
    event.preventDefault()
    isPaletteOpen.value = !isPaletteOpen.value
    return
  }
  if (!shortcutsOn.value || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return
  if (isTyping(event.target) || document.querySelector('dialog[open]')) return
  const before = first && event.timeStamp - first.at < SEQUENCE_MS ? `${first.key} ` : ''
  const find = (keys: string) => allCommands().find(command => command.keys === keys)
  const lower = event.key.toLowerCase()
  const found = (before && find(before + lower)) || (find(event.key) ?? find(lower))
  first = found ? undefined : { key: lower, at: event.timeStamp }
  if (!found) return
  event.preventDefault()
  found.run()
}
