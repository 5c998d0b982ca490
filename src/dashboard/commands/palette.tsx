// Finds and runs every command, and every deployment by name.
import { useId, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { navigate } from 'wouter-preact/use-browser-location'
import { usePages } from '../api/queries.ts'
import { Icon } from '../parts/icon.tsx'
import { toAddress } from '../router/links.tsx'
import { allCommands, type Command, isPaletteOpen } from './commands.ts'
import { Keys } from './keys.tsx'
import styles from './palette.module.css'

const MAX_SHOWN = 12
/** More would push the other deployments out. */
const MAX_WITH_PAGES = 1
const DEPLOYMENT_PAGES = [
  ['logs', 'logs'],
  ['metrics', 'metrics'],
  ['environment', 'environment'],
  ['settings', 'settings'],
  ['history', 'history, roll back'],
] as const

/** All words must match. Labels that begin with the text come first. */
function findCommands(commands: Command[], text: string): Command[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean)
  const matches = commands.filter(({ label, kind }) => {
    const where = `${label} ${kind}`.toLowerCase()
    return words.every(word => where.includes(word))
  })
  const begins = ({ label }: Command) => label.toLowerCase().startsWith(text.trim().toLowerCase())
  return [...matches.filter(begins), ...matches.filter(match => !begins(match))].slice(0, MAX_SHOWN)
}

export default function Palette({ workspace }: { workspace: string }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const listId = useId()
  const [text, setText] = useState('')
  const [chosen, setChosen] = useState(0)
  const query = { limit: 8, ...(text.trim() && { name_contains: text.trim() }) }
  const { items = [] } = usePages(workspace, 'GET /v2/deployments', { query })
  const deployments = items.map(({ id, name }) => ({
    id,
    label: name,
    kind: 'deployment',
    run: () => navigate(toAddress(`/deployments/${id}`)),
  }))
  const pages = deployments.slice(0, MAX_WITH_PAGES).flatMap(({ id, label }) =>
    DEPLOYMENT_PAGES.map(([path, words]) => ({
      id: `${id}/${path}`,
      label: `${label}: ${words}`,
      kind: 'page',
      run: () => navigate(toAddress(`/deployments/${id}/${path}`)),
    })),
  )
  const commands = allCommands()
  const isSetting = ({ kind }: Command) => ['setting', 'page'].includes(kind)
  const ordered = [
    ...commands.filter(one => !isSetting(one)),
    ...deployments,
    ...(text.trim() ? pages : []),
    ...commands.filter(isSetting),
  ]
  const found = findCommands(ordered, text)
  // Open before the next key arrives.
  useLayoutEffect(() => {
    const { current } = dialog
    current?.showModal()
    return () => current?.close()
  }, [])
  const close = () => {
    isPaletteOpen.value = false
  }
  const run = (command: Command | undefined) => {
    close()
    command?.run()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (event.key === 'Enter') run(found[chosen])
    else if (step) setChosen(index => (index + step + found.length) % Math.max(1, found.length))
    else return
    event.preventDefault()
  }
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: Escape closes it too
    <dialog
      ref={dialog}
      class={styles.palette}
      aria-label="Find or run"
      // The same as in parts/dialog.tsx.
      onCancel={event => {
        event.preventDefault()
        close()
      }}
      onClose={() => dialog.current && close()}
      onClick={({ target }) => target === dialog.current && close()}
    >
      <div class={styles.field}>
        <Icon name="search" />
        <input
          role="combobox"
          aria-label="Find or run"
          aria-expanded="true"
          aria-controls={listId}
          aria-activedescendant={found[chosen] && `${listId}-${chosen}`}
          placeholder="A deployment, a screen, an action"
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={({ currentTarget }) => {
            setText(currentTarget.value)
            setChosen(0)
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div id={listId} role="listbox" aria-label="Results" class={styles.list}>
        {found.map((command, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the combobox
          // biome-ignore lint/a11y/useFocusableInteractive: the combobox keeps the focus
          <div
            key={command.id}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === chosen}
            onMouseMove={() => setChosen(index)}
            onClick={() => run(command)}
          >
            <span>{command.label}</span>
            <span class={styles.kind}>{command.kind}</span>
            {command.keys && <Keys keys={command.keys} />}
          </div>
        ))}
      </div>
      {found.length === 0 && <p class={styles.none}>No result for “{text}”.</p>}
    </dialog>
  )
}
