//! Checks the limits of all sites and routes.

use rudy_config::{Location, Problem};
use rudy_guard::{LimitCheck, Login};

use crate::config::Config;
use crate::step_settings::StepsTable;

/// Reports the problems of all limits.
pub(crate) fn problems(config: &Config) -> Vec<Problem> {
    let (mut limits, mut problems) = (LimitCheck::default(), Vec::new());
    for (steps, login, location) in places(config) {
        let (rates, concurrency) = (steps.rate_limit.as_ref(), steps.concurrent_requests.as_ref());
        limits.check(rates, concurrency, login, location, &mut problems);
    }
    problems
}

/// The settings of each site, with the logins of all its routes, of each route, and those for all sites, with all logins.
fn places(config: &Config) -> Vec<(&StepsTable, Login, &Location)> {
    let of_all_sites = &config.defaults.steps;
    let (mut places, mut all_logins) = (Vec::new(), Login::default());
    for site in &config.sites {
        let login =
            |route: &StepsTable| route.admission.login(&site.steps.admission, &of_all_sites.admission);
        let routes = site.routes.iter().map(|route| (&route.steps, login(&route.steps), &route.location));
        let of_all = routes.clone().fold(login(&site.steps), |all, (_, login, _)| all.or(login));
        all_logins = all_logins.or(of_all);
        places.push((&site.steps, of_all, &site.location));
        places.extend(routes);
    }
    places.push((of_all_sites, all_logins, &config.location));
    places
}
