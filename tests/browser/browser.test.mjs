// Everything that a person can do in the pages, in one browser, one suite after the other.
import { after, describe } from 'node:test';
import { closeBrowser } from './world.mjs';
import { start } from './start.mjs';
import { keys } from './keys.mjs';
import { pages } from './pages.mjs';
import { watch } from './watch.mjs';
import { gallery } from './gallery.mjs';

after(closeBrowser);
describe('first start', start);
describe('keys of a provider', keys);
describe('set up and diagnose', pages);
describe('watch', watch);
describe('every page', gallery);
