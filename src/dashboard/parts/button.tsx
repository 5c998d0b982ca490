// Buttons and links that look like one. A busy button keeps its width.
import type { ComponentChildren, JSX } from 'preact'
import { Link as RouterLink } from 'wouter-preact'
import styles from './button.module.css'
import { Icon, type IconName } from './icon.tsx'

type Look = 'primary' | 'default' | 'bare' | 'danger'
type Shared = {
  look?: Look | undefined
  small?: boolean
  icon?: IconName | undefined
  /** A key that does the same. */
  hint?: string | undefined
  children?: ComponentChildren
}
type ButtonProps = Shared & {
  busy?: boolean
  /** It looks disabled, but a press says why. */
  unavailable?: boolean
} & Omit<JSX.ButtonHTMLAttributes<HTMLButtonElement>, 'icon'>

const classOf = ({ look = 'default', small, children }: Shared) =>
  [styles.button, styles[look], small ? styles.small : '', children === undefined ? styles.square : ''].join(' ')

const Content = ({ icon, hint, children }: Shared) => (
  <>
    {icon && <Icon name={icon} />}
    {children}
    {hint && <kbd class={styles.hint}>{hint}</kbd>}
  </>
)

export function Button({ look, small = false, icon, hint, busy = false, unavailable, children, ...rest }: ButtonProps) {
  return (
    <button
      type="button"
      data-main={look === 'primary' || look === 'danger' || undefined}
      aria-disabled={busy || unavailable || undefined}
      {...rest}
      class={`${classOf({ look, small, children })} ${busy || unavailable ? styles.busy : ''}`}
      onClick={busy ? undefined : rest.onClick}
    >
      <Content icon={icon} hint={hint}>
        {children}
      </Content>
    </button>
  )
}

type LinkProps = Shared & JSX.AnchorHTMLAttributes<HTMLAnchorElement>
/** One to another screen does not load the page again. */
export function ButtonLink({ look, small = false, icon, hint, children, ...rest }: LinkProps) {
  const Anchor = String(rest.href).startsWith('/ui/') ? RouterLink : 'a'
  return (
    <Anchor {...(rest as { href: string })} class={classOf({ look, small, children })}>
      <Content icon={icon} hint={hint}>
        {children}
      </Content>
    </Anchor>
  )
}
