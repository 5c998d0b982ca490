// Buttons and links that look like one. A busy button keeps its width.
import type { ComponentChildren, JSX } from 'preact'
import { Link as RouterLink } from 'wouter-preact'
import styles from './button.module.css'
import { Icon, type IconName } from './icon.tsx'
import { toast } from './toast.ts'

type Look = 'primary' | 'default' | 'bare' | 'danger'
type Shared = {
  look?: Look | undefined
  small?: boolean
  icon?: IconName | undefined
  /** A key that does the same. */
  hint?: string | undefined
  /** The reason why it cannot be used. It then looks disabled, keeps the focus, and a press shows the reason. */
  unavailable?: string | undefined
  children?: ComponentChildren
}
type ButtonProps = Shared & { busy?: boolean } & Omit<
    JSX.ButtonHTMLAttributes<HTMLButtonElement>,
    'icon' | 'disabled' | 'aria-disabled'
  >

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
  const isOff = busy || unavailable !== undefined
  const refuse = (event: Event) => {
    event.preventDefault()
    const label = rest['aria-label'] ?? (typeof children === 'string' ? children : 'This')
    if (unavailable) toast('bad', `${label} is not possible`, unavailable)
  }
  return (
    <button
      type="button"
      data-main={look === 'primary' || look === 'danger' || undefined}
      {...rest}
      title={unavailable ?? rest.title}
      aria-disabled={isOff || undefined}
      class={`${classOf({ look, small, children })} ${isOff ? styles.off : ''}`}
      onClick={isOff ? refuse : rest.onClick}
    >
      <Content icon={icon} hint={hint}>
        {children}
      </Content>
    </button>
  )
}

type LinkProps = Shared & JSX.AnchorHTMLAttributes<HTMLAnchorElement>
/** Links to other screens do not load the page again. */
export function ButtonLink({ look, small = false, icon, hint, unavailable, children, ...rest }: LinkProps) {
  if (unavailable !== undefined)
    return (
      <Button look={look} small={small} icon={icon} unavailable={unavailable}>
        {children}
      </Button>
    )
  const Anchor = String(rest.href).startsWith('/ui/') ? RouterLink : 'a'
  return (
    <Anchor {...(rest as { href: string })} class={classOf({ look, small, children })}>
      <Content icon={icon} hint={hint}>
        {children}
      </Content>
    </Anchor>
  )
}
