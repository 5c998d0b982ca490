// The menu: its groups, with what the workspace does not use yet folded behind “More”.
import { signal } from '@preact/signals'
import { useId } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { isHelpOpen } from '../commands/commands.ts'
import { Icon } from '../parts/icon.tsx'
import { Link, toAddress } from '../router/links.tsx'
import { GROUPS, OPENED_BY_KEYS } from '../screens/menu.ts'
import { used } from './menu-entries.ts'
import styles from './shell.module.css'

const ENTRIES = OPENED_BY_KEYS.filter(({ group }) => group !== undefined)

const OPEN_KEY = 'slipway-menu-open'
const isOpen = signal(localStorage.getItem(OPEN_KEY) === 'yes')
function toggle(): void {
  isOpen.value = !isOpen.value
  localStorage.setItem(OPEN_KEY, isOpen.value ? 'yes' : 'no')
}

export function closeMenu(): void {
  for (const menu of document.querySelectorAll<HTMLElement>('#phone-menu, #workspaces')) menu.hidePopover()
}

function useIsCurrent() {
  const [path] = useLocation()
  return (screen: string) => path.startsWith(toAddress(screen))
}

export function ScreenLinks({ screens }: { screens: typeof OPENED_BY_KEYS }) {
  const isCurrent = useIsCurrent()
  return screens.map(({ path, label, icon }) => (
    <Link key={path} to={path} title={label} aria-current={isCurrent(path) ? 'page' : undefined} onClick={closeMenu}>
      <Icon name={icon!} />
      <span>{label}</span>
    </Link>
  ))
}

export function Menu() {
  const id = useId()
  const isCurrent = useIsCurrent()
  const unfolded = ENTRIES.filter(({ path, isFolded }) => !isFolded || used.value.has(path) || isCurrent(path))
  const shown = isOpen.value ? ENTRIES : unfolded
  return (
    <>
      <nav class={styles.menu} aria-label="Workspace" id={id}>
        {GROUPS.map(group => {
          const screens = shown.filter(screen => screen.group === group)
          return (
            screens.length > 0 && (
              <div key={group}>
                <p>{group}</p>
                <ScreenLinks screens={screens} />
              </div>
            )
          )
        })}
        <a href="/docs">
          <Icon name="book" />
          <span>API pages</span>
        </a>
        {unfolded.length < ENTRIES.length && (
          <button type="button" aria-expanded={isOpen.value} aria-controls={id} title="More" onClick={toggle}>
            <Icon name={isOpen.value ? 'up' : 'down'} />
            <span>More</span>
          </button>
        )}
      </nav>
      <div class={styles.foot}>
        <button type="button" onClick={() => (isHelpOpen.value = true)}>
          <kbd>?</kbd>
          <span>Shortcuts</span>
        </button>
      </div>
    </>
  )
}
