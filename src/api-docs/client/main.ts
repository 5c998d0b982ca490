// The browser script of the API pages.
import { setUpForms } from './forms.ts'
import { setUpNavigation } from './navigation.ts'

setUpNavigation()
if (document.querySelector('#key')) setUpForms()
