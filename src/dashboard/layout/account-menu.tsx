// The menu of the workspace: the caller, other workspaces, the theme, and the end of the session.
import type { Me, Workspace } from '../api/client.ts'
import { setTheme, THEMES, theme } from '../parts/preferences.ts'
import { Link, toAddress } from '../router/links.tsx'
import { HOME } from '../screens/menu.ts'
import styles from './account-menu.module.css'
import { Avatar } from './avatar.tsx'
import { closeMenu } from './menu.tsx'

export type AccountMenuProps = {
  me: Me
  workspace: Workspace
  onShowList: () => void
  onSignOut: () => void
  /** The name of the radio buttons: the page has two of these menus. */
  group: string
}
export default function AccountMenu({ me, workspace, onShowList, onSignOut, group }: AccountMenuProps) {
  return (
    <div class={styles.account}>
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
            <input type="radio" name={group} checked={theme.value === name} onChange={() => setTheme(name)} />
            <span>{name}</span>
          </label>
        ))}
      </fieldset>
      <Link to="/account" onClick={closeMenu}>
        Your account and sessions
      </Link>
      <button type="button" onClick={onShowList}>
        Activity in this tab
      </button>
      <button type="button" onClick={onSignOut}>
        Sign out
      </button>
    </div>
  )
}
