// The frame of every screen: menu, path, search and state of the connection.
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
import { setTheme, THEMES } from '../parts/preferences.ts'
import { shownIds, toast } from '../parts/toast.ts'
import { crumbs } from '../router/crumbs.ts'
import { Link, toAddress } from '../router/links.tsx'
import { HOME, OPENED_BY_KEYS } from '../screens/menu.ts'
import type { AccountMenuProps } from './account-menu.tsx'
import { Avatar } from './avatar.tsx'
import { Menu, ScreenLinks } from './menu.tsx'
import { learnFromEvent, useMenuUse } from './menu-use.ts'
import styles from './shell.module.css'

const AccountMenu = lazily<AccountMenuProps>(() => import('./account-menu.tsx'))
const DoneList = lazily(() => import('./done-list.tsx'))
const Help = lazily(() => import('../commands/help.tsx'))
const LinkNotice = lazily(() => import('./link-notice.tsx'))
const Toasts = lazily(() => import('./shown-toasts.tsx'))
const Palette = lazily(() => import('../commands/palette.tsx'))

/** The tabs at the bottom of a phone. */
const PHONE_TABS = OPENED_BY_KEYS.filter(({ group }) => group === 'Deploy')

type ShellProps = { me: Me; workspace: Workspace; children: ComponentChildren }

export function Shell({ me, workspace, children }: ShellProps) {
  const [, navigate] = useLocation()
  const [isListOpen, setListOpen] = useState(false)
  useMenuUse(workspace.id)
  useLive(workspace.id, ({ subject }) => learnFromEvent(workspace.id, subject.type))
  const main = useRef<HTMLElement>(null)
  useEffect(() => {
    // Scroll a new screen to its top and focus it, for screen readers. Back keeps the position.
    const begin = () => {
      scrollTo(0, 0)
      main.current?.focus({ preventScroll: true })
    }
    addEventListener('keydown', handleKey)
    addEventListener('pushState', begin)
    // Load the palette early: keys typed after Ctrl+K must reach its field. Opening it reports a failure.
    Palette.preload().catch(() => {})
    Toasts.preload().catch(() => {})
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
    { id: 'done', label: 'Activity in this tab', kind: 'action', run: () => setListOpen(true) },
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
  const account = { me, workspace, onShowList: () => setListOpen(true), onSignOut: () => void signOut() }
  return (
    <div class={styles.shell}>
      <a class={styles.skip} href="#content">
        Skip to the content
      </a>
      <div class={styles.side} id="menu">
        <WorkspaceMenu {...account} />
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
        <div class={styles.phoneAccount}>
          <AccountMenu {...account} group="phone-theme" />
        </div>
      </div>
      <div class={styles.toasts} role="status" aria-live="polite">
        {shownIds.value.length > 0 && <Toasts />}
      </div>
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

type WorkspaceMenuProps = Omit<AccountMenuProps, 'group'>
function WorkspaceMenu(props: WorkspaceMenuProps) {
  const { display_name } = props.workspace
  return (
    <>
      <button type="button" class={styles.workspace} popovertarget="workspaces" title={display_name}>
        <Avatar name={display_name} />
        <span>{display_name}</span>
        <Icon name="down" />
      </button>
      <div id="workspaces" popover="auto" class={styles.popover}>
        <AccountMenu {...props} group="theme" />
      </div>
    </>
  )
}
