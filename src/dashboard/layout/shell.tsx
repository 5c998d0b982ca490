// What surrounds every screen: menu, path, search and state of the connection.
import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { getClient, type Me, type Workspace } from '../api/client.ts'
import { handleKey, isHelpOpen, isPaletteOpen, useCommands } from '../commands/commands.ts'
import { useLive } from '../live/use-live.ts'
import { Button } from '../parts/button.tsx'
import { Icon } from '../parts/icon.tsx'
import { lazily } from '../parts/lazily.tsx'
import { LiveBadge } from '../parts/live-badge.tsx'
import { setTheme, THEMES, type Theme, theme } from '../parts/preferences.ts'
import { Toasts, toast } from '../parts/toasts.tsx'
import { crumbs } from '../router/crumbs.ts'
import { Link, toAddress } from '../router/links.tsx'
import { GROUPS, HOME, OPENED_BY_KEYS } from '../screens/menu.ts'
import styles from './shell.module.css'

const DoneList = lazily(() => import('./done-list.tsx'))
const Help = lazily(() => import('../commands/help.tsx'))
const LinkNotice = lazily(() => import('./link-notice.tsx'))
const Palette = lazily(() => import('../commands/palette.tsx'))

/** What a phone shows without its menu. */
const PHONE_TABS = OPENED_BY_KEYS.filter(({ group }) => group === '').slice(0, 4)

type ShellProps = { me: Me; workspace: Workspace; children: ComponentChildren }

export function Shell({ me, workspace, children }: ShellProps) {
  const [, navigate] = useLocation()
  const [isListOpen, setListOpen] = useState(false)
  useLive(workspace.id)
  const main = useRef<HTMLElement>(null)
  useEffect(() => {
    // A screen that was opened begins at its top, for readers too. Back returns to where one was.
    const begin = () => {
      scrollTo(0, 0)
      main.current?.focus({ preventScroll: true })
    }
    addEventListener('keydown', handleKey)
    addEventListener('pushState', begin)
    // Keys typed at once after Ctrl+K reach its field only if it is there. If this fails, opening it says why.
    Palette.preload().catch(() => {})
    return () => {
      removeEventListener('keydown', handleKey)
      removeEventListener('pushState', begin)
    }
  }, [])
  useCommands([
    ...OPENED_BY_KEYS.map(({ path, label, keys }) => ({
      id: path,
      label,
      kind: 'screen',
      keys,
      run: () => navigate(toAddress(path)),
    })),
    ...me.workspaces
      .filter(({ id }) => id !== workspace.id)
      .map(({ id, display_name }) => ({
        id,
        label: `Switch to ${display_name}`,
        kind: 'workspace',
        run: () => navigate(toAddress(HOME, id)),
      })),
    { id: 'filter', label: 'Filter', kind: 'action', keys: '/', run: focusFilter },
    { id: 'help', label: 'Shortcuts', kind: 'action', keys: '?', run: () => (isHelpOpen.value = true) },
    { id: 'done', label: 'What was done in this tab', kind: 'action', run: () => setListOpen(true) },
    ...THEMES.map(name => ({
      id: `theme-${name}`,
      label: `Theme: ${name}`,
      kind: 'setting',
      run: () => setTheme(name),
    })),
    { id: 'account', label: 'Your account and sessions', kind: 'screen', run: () => navigate(toAddress('/account')) },
    { id: 'docs', label: 'API pages', kind: 'page', run: () => location.assign('/docs') },
    { id: 'sign-out', label: 'Sign out', kind: 'action', run: () => void signOut() },
  ])
  return (
    <div class={styles.shell}>
      <a class={styles.skip} href="#content">
        Skip to the content
      </a>
      <div class={styles.side} id="menu">
        <WorkspaceMenu me={me} workspace={workspace} onShowList={() => setListOpen(true)} />
        <Menu />
      </div>
      <header class={styles.top}>
        <span class={styles.burger}>
          <Button look="bare" icon="menu" aria-label="Menu" popovertarget="phone-menu" />
        </span>
        <nav class={styles.crumbs} aria-label="Path">
          <Link to={HOME} class={styles.wide}>
            {workspace.display_name}
          </Link>
          {crumbs.value.map(({ label, to }) => (
            <span key={label}>{to ? <Link to={to}>{label}</Link> : <b aria-current="page">{label}</b>}</span>
          ))}
        </nav>
        <button type="button" class={styles.find} aria-label="Find or run" onClick={() => (isPaletteOpen.value = true)}>
          <Icon name="search" />
          <span>Find or run</span>
          <kbd>Ctrl K</kbd>
        </button>
        <LiveBadge />
      </header>
      <main class={styles.main} id="content" ref={main} tabIndex={-1}>
        {me.session?.method === 'link' && <LinkNotice me={me} onSignOut={() => void signOut()} />}
        {children}
      </main>
      <nav class={styles.tabs} aria-label="Main screens">
        <ScreenLinks screens={PHONE_TABS} />
      </nav>
      <div id="phone-menu" popover="auto" class={styles.phoneMenu}>
        <Menu />
        <WorkspaceMenu me={me} workspace={workspace} onShowList={() => setListOpen(true)} isOpen />
      </div>
      <Toasts />
      {isPaletteOpen.value && <Palette workspace={workspace.id} />}
      {isHelpOpen.value && <Help />}
      {isListOpen && <DoneList onClose={() => setListOpen(false)} />}
    </div>
  )
}

function focusFilter(): void {
  document.querySelector<HTMLInputElement>('input[data-filter]')?.focus()
}

async function signOut(): Promise<void> {
  try {
    await getClient().call('DELETE /v2/me/sessions/current')
    location.assign('/sign-in?next=/ui/')
  } catch (error) {
    toast('bad', 'You are not signed out', (error as Error).message)
  }
}

function closeMenu(): void {
  for (const menu of document.querySelectorAll<HTMLElement>('#phone-menu, #workspaces')) menu.hidePopover()
}

function ScreenLinks({ screens }: { screens: typeof OPENED_BY_KEYS }) {
  const [path] = useLocation()
  return screens.map(({ path: screen, label, icon }) => (
    <Link
      key={screen}
      to={screen}
      title={label}
      aria-current={path.startsWith(toAddress(screen)) ? 'page' : undefined}
      onClick={closeMenu}
    >
      <Icon name={icon!} />
      <span>{label}</span>
    </Link>
  ))
}

function Menu() {
  return (
    <>
      <nav class={styles.menu} aria-label="Workspace">
        {GROUPS.map(group => (
          <div key={group}>
            {group && <p>{group}</p>}
            <ScreenLinks screens={OPENED_BY_KEYS.filter(screen => screen.group === group)} />
          </div>
        ))}
        <a href="/docs">
          <Icon name="book" />
          <span>API pages</span>
        </a>
      </nav>
      <div class={styles.foot}>
        <button type="button" onClick={() => (isHelpOpen.value = true)}>
          <kbd>?</kbd>
          <span>All shortcuts</span>
        </button>
      </div>
    </>
  )
}

type WorkspaceMenuProps = { me: Me; workspace: Workspace; onShowList: () => void; isOpen?: boolean }

function WorkspaceMenu({ me, workspace, onShowList, isOpen = false }: WorkspaceMenuProps) {
  const content = (
    <>
      <p class={styles.who}>
        {me.member ? (me.member.full_name ?? me.member.email) : `Key “${me.api_key?.description}”`}
        <span>{me.organization.display_name}</span>
      </p>
      <ul>
        {me.workspaces.map(({ id, display_name }) => (
          <li key={id}>
            <a href={toAddress(HOME, id)} aria-current={id === workspace.id ? 'true' : undefined}>
              <Avatar name={display_name} />
              <span>{display_name}</span>
            </a>
          </li>
        ))}
      </ul>
      <fieldset>
        <legend>Theme</legend>
        {THEMES.map(name => (
          <label key={name}>
            <input
              type="radio"
              name={isOpen ? 'phone-theme' : 'theme'}
              checked={theme.value === name}
              onChange={() => setTheme(name as Theme)}
            />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      <Link to="/account" onClick={closeMenu}>
        Your account and sessions
      </Link>
      <button type="button" onClick={onShowList}>
        What was done in this tab
      </button>
      <button type="button" onClick={() => void signOut()}>
        Sign out
      </button>
    </>
  )
  if (isOpen) return <div class={styles.account}>{content}</div>
  return (
    <>
      <button type="button" class={styles.workspace} popovertarget="workspaces" title={workspace.display_name}>
        <Avatar name={workspace.display_name} />
        <span>{workspace.display_name}</span>
        <Icon name="down" />
      </button>
      <div id="workspaces" popover="auto" class={`${styles.account} ${styles.popover}`}>
        {content}
      </div>
    </>
  )
}

const Avatar = ({ name }: { name: string }) => (
  <span class={styles.avatar} aria-hidden="true">
    {[...name][0]?.toUpperCase()}
  </span>
)
